/* Draws a panel of lines. */
/** @import { Columns, Context, LinesPanel, Plot, Scale, Series, Track } from "./types" */
import { byteAxis, ceiling, fitCanvas, plotIn, timeAxis, timeScale } from "./axes.js";
import { human } from "./bytes.js";
import { LANE, chart, isShown, state } from "./chart.js";
import { colours } from "./colours.js";
import { levelFor } from "./columns.js";
import { drawBackdrop, drawCursor, drawMarks, drawRequests } from "./overlays.js";
import { firstAtOrAfter } from "./packed.js";
import { shadeBand, traceLine } from "./traces.js";

/**
 * Whether a series is drawn as a band above others, without a line of its own.
 * @param {Track} track
 * @param {Series} series
 */
const isBand = (track, series) => ["hidden", "others"].includes(series.colour) && track.series.length > 1;
/**
 * The least and the greatest drawn value, and the greatest capacity.
 * @param {LinesPanel} panel
 * @param {[Track, Columns[]][]} views
 */
const extremes = (panel, views) => {
  let peak = 0, least = 0, capacity = 0;
  for (const [track, list] of views) {
    track.series.forEach((series, s) => {
      if (!isShown(panel, track, s) || isBand(track, series)) return;
      for (const columns of list) {
        const begin = firstAtOrAfter(columns.end, state.from);
        for (let i = begin; i < columns.count && columns.start[i] <= state.to; i++) {
          const high = columns.high[s][i];
          if (series.colour === "capacity") { if (high > capacity) capacity = high; continue; }
          if (high > peak) peak = high;
          if (columns.low[s][i] < least) least = columns.low[s][i];
        }
      }
    });
    // The band of hidden memory lies on the line of reserved memory.
    const place = (/** @type {string} */ name) => track.series.findIndex((series, s) => series.colour === name && isShown(panel, track, s));
    const [reserved, hidden] = [place("reserved"), place("hidden")];
    if (reserved < 0 || hidden < 0) continue;
    for (const { start, end, high, count } of list) {
      for (let i = firstAtOrAfter(end, state.from); i < count && start[i] <= state.to; i++) {
        const top = high[reserved][i] + high[hidden][i];
        if (top > peak) peak = top;
      }
    }
  }
  // A request far beyond what was in use is cut at the top.
  const highest = Math.max(peak, capacity) * 1.5;
  for (const request of panel.requests) {
    if (request.t >= state.from && request.t <= state.to * 1.02) peak = Math.max(peak, Math.min(request.in_use + request.requested, highest));
  }
  return { peak, least, capacity };
};
/** If values change by less than this share of the highest, their axis does not start at zero. */
const SLIVER = 0.34;
/**
 * The ends of the axis of the leading finding, as focus.rs computes them for all of the recording.
 * @param {LinesPanel} panel
 * @param {Columns[]} list
 * @param {number} peak
 * @returns {[number, number]}
 */
const focusRange = (panel, list, peak) => {
  const { low, trend, limit, requests } = /** @type {import("./types").Focus} */ (panel.focus);
  let least = Infinity;
  for (const columns of list) {
    for (let i = firstAtOrAfter(columns.end, state.from); i < columns.count && columns.start[i] <= state.to; i++) {
      const value = columns.low[0][i];
      if (value >= low && value < least) least = value;
    }
  }
  if (trend && trend[1][0] >= state.from && trend[0][0] <= state.to) peak = Math.max(peak, trend[1][1]);
  const length = peak - least;
  if (low <= 0 || requests.length || !isFinite(least) || length >= SLIVER * peak) return [0, ceiling(peak)];
  const top = limit && limit[0] - least <= 1.6 * length ? Math.max(peak, limit[0]) : peak;
  const span = Math.max(top - least, 0.002 * top);
  return [Math.max(0, least - 0.1 * span), top + 0.1 * span];
};
/**
 * The growth as a line, and when the memory is full.
 * @param {Context} g
 * @param {Plot} plot
 * @param {Scale} x
 * @param {Scale} y
 * @param {import("./types").Focus} focus
 * @param {number} high
 * @returns {[from: number, to: number, y: number][]} its labels
 */
const drawFocus = (g, plot, x, y, { trend, limit, severity }, high) => {
  /** @type {[number, number, number][]} */
  const taken = [];
  const put = (/** @type {string} */ text, /** @type {number} */ left, /** @type {number} */ at) => {
    g.fillText(text, left, at);
    taken.push([left, left + g.measureText(text).width, at]);
  };
  g.save(); g.strokeStyle = g.fillStyle = colours[severity]; g.textAlign = "left";
  if (trend) {
    g.save(); g.beginPath(); g.rect(plot.x, plot.y, plot.width, plot.height); g.clip();
    const [from, to] = trend;
    g.lineWidth = 2.6; g.setLineDash([7, 5]); g.beginPath(); g.moveTo(x(from[0]), y(from[1])); g.lineTo(x(to[0]), y(to[1])); g.stroke(); g.restore();
  }
  if (limit && limit[0] <= high) {
    g.strokeStyle = colours.capacity; g.lineWidth = 1.5; g.setLineDash([5, 4]);
    g.beginPath(); g.moveTo(plot.x, y(limit[0])); g.lineTo(plot.right, y(limit[0])); g.stroke();
    put(`${human(limit[0])} ${limit[1]}`, plot.x + 6, y(limit[0]) + 14);
  } else if (limit) {
    const left = plot.x + 12, top = plot.y + 6;
    g.lineWidth = 1.8; g.beginPath(); g.moveTo(left, top + 4); g.lineTo(left, top + 18); g.stroke();
    g.beginPath(); g.moveTo(left, top); g.lineTo(left + 4.5, top + 7); g.lineTo(left - 4.5, top + 7); g.fill();
    put(limit[1], left + 10, top + 13);
  }
  g.restore();
  return taken;
};
/**
 * Pauses in sampling.
 * @param {Context} g
 * @param {Plot} plot
 * @param {Scale} x
 * @param {Track} track
 * @param {Columns[]} list
 */
const drawPauses = (g, plot, x, track, list) => {
  g.fillStyle = colours.muted; g.globalAlpha = 0.12;
  let lastEnd = NaN;
  for (const columns of list) for (let i = 0; i < columns.count; i++) {
    if (columns.start[i] - lastEnd > track.gap) g.fillRect(x(lastEnd), plot.y, x(columns.start[i]) - x(lastEnd), plot.height);
    lastEnd = columns.end[i];
  }
  g.globalAlpha = 1;
};
/**
 * The median of many ranks, with the range of most and of all of them.
 * @param {Context} g
 * @param {Plot} plot
 * @param {Scale} x
 * @param {Scale} y
 * @param {LinesPanel} panel
 * @param {Track} track
 * @param {Columns[]} list
 */
const drawEnvelope = (g, plot, x, y, panel, track, list) => {
  g.fillStyle = colours.envelope;
  if (track.series.some((_, s) => isShown(panel, track, s))) {
    g.globalAlpha = 0.16; shadeBand(g, list, (high, i) => [high[0][i], high[4][i]], chart.length, x, y);
    g.globalAlpha = 0.24; shadeBand(g, list, (high, i) => [high[1][i], high[3][i]], chart.length, x, y);
  }
  g.globalAlpha = 1; g.strokeStyle = colours.text; g.lineWidth = 1.8;
  traceLine(g, list, 2, track.gap, plot, x, y);
};
/**
 * The areas below and between the lines of a track.
 * @param {Context} g
 * @param {Scale} x
 * @param {Scale} y
 * @param {LinesPanel} panel
 * @param {Track} track
 * @param {Columns[]} list
 * @param {number} low
 */
const drawAreas = (g, x, y, panel, track, list, low) => {
  /** @param {string} name */
  const place = (name) => track.series.findIndex((series) => series.colour === name);
  /** @param {string} name */
  const shows = (name) => track.series.some((series, s) => series.colour === name && isShown(panel, track, s));
  /**
   * @param {string} colour
   * @param {number} alpha
   * @param {(high: Float64Array[], i: number) => [number, number]} edges
   */
  const band = (colour, alpha, edges) => { g.globalAlpha = alpha; g.fillStyle = colours[colour]; shadeBand(g, list, edges, track.gap, x, y); };
  if (panel.band) {
    // What the second run needs more, and what it needs less.
    band("critical", 0.3, (high, i) => [high[0][i], high[1][i]]);
    band("used", 0.3, (high, i) => [high[1][i], high[0][i]]);
  } else if (track.series.length === 1) {
    if (panel.focus ? low <= 0 : shows("hidden") || panel.host && panel.tracks.length === 1) band(track.series[0].colour, 0.28, (high, i) => [0, high[0][i]]);
  } else {
    const used = place("used"), reserved = place("reserved"), allocated = place("allocated"), hidden = place("hidden"), others = place("others");
    if (shows("allocated")) band("allocated", 0.22, (high, i) => [0, high[allocated][i]]);
    if (shows("reserved")) band("reserved", 0.26, (high, i) => [allocated < 0 ? high[reserved][i] : high[allocated][i], high[reserved][i]]);
    if (shows("hidden") && reserved >= 0) band("hidden", 0.3, (high, i) => [high[reserved][i], high[reserved][i] + high[hidden][i]]);
    if (shows("others") && used >= 0) band("others", 0.18, (high, i) => [high[used][i] - high[others][i], high[used][i]]);
  }
  g.globalAlpha = 1;
};
/** @param {LinesPanel} panel */
export const drawLines = (panel) => {
  // Panels in a closed list have no size.
  if (!panel.canvas.clientWidth) return;
  const [g, width, height] = fitCanvas(panel.canvas);
  const plot = panel.plot = plotIn(width, height, LANE + panel.phaseHeight + 2);
  const x = timeScale(plot);
  drawBackdrop(g, plot, x, panel);
  const views = panel.tracks.map((track) => /** @type {[Track, Columns[]]} */ ([track, levelFor(track, plot.width)]));
  const { peak, least, capacity } = extremes(panel, views);
  const onlyCapacity = peak === 0 && capacity > 0;
  const [from, to] = panel.focus ? focusRange(panel, views[0][1], peak) : [0, 0];
  const high = panel.focus ? to : ceiling(capacity > 0 && (capacity <= 1.5 * peak || onlyCapacity) ? Math.max(capacity, peak) : peak);
  const low = panel.focus ? from : least < 0 ? -ceiling(-least) : 0;
  /** @type {Scale} */
  const y = (bytes) => plot.bottom - (Math.min(bytes, high) - low) / (high - low) * plot.height;
  byteAxis(g, plot, low, high);
  if (low > 0) {
    g.save(); g.translate(12, plot.y + plot.height / 2); g.rotate(-Math.PI / 2);
    g.textAlign = "center"; g.fillStyle = colours.muted; g.fillText("not from 0", 0, 0); g.restore();
  }
  g.save(); g.beginPath(); g.rect(plot.x, plot.y - 1, plot.width, plot.height + 2); g.clip();
  for (const [track, list] of views) {
    if (panel.tracks.length === 1) drawPauses(g, plot, x, track, list);
    if (track.series[0].colour === "envelope") {
      drawEnvelope(g, plot, x, y, panel, track, list);
      continue;
    }
    drawAreas(g, x, y, panel, track, list, low);
    for (let s = track.series.length - 1; s >= 0; s--) {
      const series = track.series[s];
      if (!isShown(panel, track, s) || isBand(track, series)) continue;
      g.strokeStyle = colours[series.colour]; g.lineWidth = 1.6; g.lineJoin = "round";
      if (series.colour === "capacity") g.setLineDash([5, 4]);
      if (series.colour !== "capacity" || capacity <= high) traceLine(g, list, s, track.gap, plot, x, y);
      g.setLineDash([]);
    }
  }
  g.restore();
  const taken = panel.focus ? drawFocus(g, plot, x, y, panel.focus, high) : [];
  drawRequests(g, plot, x, y, panel.requests, taken);
  drawMarks(g, plot, x, panel);
  timeAxis(g, plot, x);
  drawCursor(g, plot, x);
};
