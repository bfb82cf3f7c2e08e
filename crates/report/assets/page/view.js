/* Moves the shown part: zoom, pan, from event to event, from sample to sample. */
/** @import { StormlogPlot } from "./types" */
import { chart, state } from "./chart.js";
import { neighbour } from "./columns.js";
import { soon } from "./frame.js";
import { readout } from "./readout.js";

/** @type {Pick<StormlogPlot, "onview">} */
export const watcher = { onview: null };
/**
 * @param {number} from
 * @param {number} to
 */
export const setView = (from, to) => {
  // No closer than a few samples can be, no wider than everything.
  const { length } = chart, smallest = Math.max(length * 1e-7, 1000);
  const width = Math.min(Math.max(to - from, smallest), length);
  state.from = Math.min(Math.max((from + to) / 2 - width / 2, 0), length - width);
  state.to = state.from + width;
  if (watcher.onview) watcher.onview(state.from <= 0 && state.to >= length ? null : [state.from / 1e9, state.to / 1e9]);
  soon();
};
/**
 * @param {number} factor
 * @param {number} [around]
 */
export const zoom = (factor, around) => {
  const at = around === undefined ? (state.from + state.to) / 2 : around;
  setView(at - (at - state.from) * factor, at + (state.to - at) * factor);
};
/** @param {number} part */
export const pan = (part) => { const by = (state.to - state.from) * part; setView(state.from + by, state.to + by); };
export const reset = () => { if (!chart.isDrawn) return; state.mark = -1; setView(0, chart.length); };
/** @param {number} place */
export const jump = (place) => {
  const { marks } = chart.spec;
  if (!marks.length) return;
  state.mark = (place + marks.length) % marks.length;
  const mark = marks[state.mark], end = mark.end === null ? mark.t : mark.end;
  const around = Math.max((end - mark.t) * 2, Math.min(chart.length / 12, state.to - state.from));
  setView((mark.t + end) / 2 - around / 2, (mark.t + end) / 2 + around / 2);
  state.cursor = mark.t;
  document.querySelectorAll(".marks button").forEach((button, i) => button.setAttribute("aria-current", String(i === state.mark)));
  readout(mark.t);
};
/**
 * Moves the cursor to the next sample of the first track.
 * @param {number} direction
 */
export const step = (direction) => {
  const track = chart.panels.flatMap((panel) => (panel.kind === "lines" ? panel.tracks : []))[0];
  if (!track) return;
  const at = neighbour(track, state.cursor === null ? (state.from + state.to) / 2 : state.cursor, direction);
  if (at !== null) { state.cursor = at; readout(at); soon(); }
};
