/* The strip that shows the whole recording, and in it the shown part. */
/** @import { Plot, Track } from "./types" */
import { fitCanvas, plotIn } from "./axes.js";
import { chart, state } from "./chart.js";
import { colours } from "./colours.js";
import { columnsOf, present } from "./columns.js";
import { traceLine } from "./traces.js";

/** @type {{ canvas: HTMLCanvasElement | null, plot: Plot | null }} */
export const overview = { canvas: null, plot: null };

/**
 * The series that stands for a track.
 * @param {Track} track
 */
const seriesFor = (track) => {
  const places = ["used", "reserved", "allocated"].map((name) => track.series.findIndex((series) => series.colour === name));
  const wanted = places.find((place) => place >= 0) ?? -1;
  return Math.max(wanted, track.series[0].colour === "envelope" ? 2 : 0);
};
export const drawOverview = () => {
  const { canvas } = overview, panel = chart.panels.find((one) => one.kind === "lines");
  if (!canvas) return;
  const [g, width, height] = fitCanvas(canvas);
  const plot = overview.plot = plotIn(width, height, 2, 2);
  g.fillStyle = colours.panel; g.fillRect(plot.x, plot.y, plot.width, plot.height);
  /** @param {number} t */
  const x = (t) => plot.x + t / chart.length * plot.width;
  if (panel) {
    const kept = [state.from, state.to];
    [state.from, state.to] = [0, chart.length];
    let peak = 1, least = Infinity;
    const only = chart.spec.overview, focus = panel.focus;
    const views = (only === undefined ? panel.tracks : [chart.spec.tracks[only]]).map((track) => {
      const level = track.levels[track.levels.length - 1], s = seriesFor(track);
      return { track, s, list: present(level.blocks.map((_, at) => columnsOf(track, level, at))) };
    });
    for (const { s, list } of views) {
      for (const columns of list) columns.high[s].forEach((value, i) => { if (value > peak) peak = value; if (columns.low[s][i] < least && columns.low[s][i] >= (focus?.low || 0)) least = columns.low[s][i]; });
    }
    for (const { track, s, list } of views) {
      g.strokeStyle = colours[track.series[s].colour === "envelope" ? "text" : track.series[s].colour]; g.lineWidth = 1;
      // The strip has the lower end of the first panel, so that both show the same growth.
      const low = focus && focus.low > 0 && isFinite(least) ? Math.max(least - (peak - least) * 0.1, 0) : 0;
      traceLine(g, list, s, track.gap, plot, x, (bytes) => Math.min(plot.bottom - (bytes - low) / (peak - low || 1) * plot.height * 0.94, plot.bottom));
    }
    [state.from, state.to] = kept;
  }
  const left = x(state.from), right = x(state.to);
  g.fillStyle = colours.background; g.globalAlpha = 0.65;
  g.fillRect(plot.x, plot.y, left - plot.x, plot.height); g.fillRect(right, plot.y, plot.right - right, plot.height);
  g.globalAlpha = 1; g.strokeStyle = colours.focus; g.lineWidth = 1.5; g.strokeRect(left, plot.y, Math.max(right - left, 2), plot.height);
  g.fillStyle = colours.focus;
  for (const edge of [left, right]) g.fillRect(edge - 2.5, plot.y + plot.height / 2 - 9, 5, 18);
  for (const mark of chart.spec.marks) { g.fillStyle = colours[mark.severity]; g.fillRect(x(mark.t) - 0.7, plot.y, 1.4, 6); }
};
