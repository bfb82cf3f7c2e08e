/* What is drawn, and which part of it is shown. */
/** @import { Drag, LinesPanel, Panel, Spec, Tip, Track } from "./types" */

/** Room left of and below a plot, and the heights of the marks and of a row of phases above it. */
export const LEFT = 66;
export const BOTTOM = 26;
export const LANE = 20;
export const PHASE = 15;

/** @type {Spec} */
const NOTHING = { zero_ms: 0, zero_ns_rest: 0, length: 1, several: false, tracks: [], panels: [], marks: [], phases: [], requests: [], facts: [] };
/** The drawn data. `right` is the room right of the plots, the same for all, so that they share one time axis. */
export const chart = { isDrawn: false, spec: NOTHING, length: 1, right: 14, panels: /** @type {Panel[]} */ ([]) };

/** The shown part, and where the reader is. */
export const state = {
  from: 0, to: 1, mark: -1, cursor: /** @type {number | null} */ (null), hidden: new Set(),
  drag: /** @type {Drag | null} */ (null), tip: /** @type {Tip | null} */ (null),
};

/**
 * @param {LinesPanel} panel
 * @param {Track} track
 * @param {number} s
 */
export const keyOf = (panel, track, s) => `${panel.place}:${track.id}:${s}`;
/**
 * @param {LinesPanel} panel
 * @param {Track} track
 * @param {number} s
 */
export const isShown = (panel, track, s) => !state.hidden.has(keyOf(panel, track, s));
