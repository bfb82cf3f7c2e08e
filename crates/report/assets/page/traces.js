/* Lines of samples, and the areas between them. */
/** @import { Columns, Context, Plot, Scale } from "./types" */
import { state } from "./chart.js";
import { firstAtOrAfter } from "./packed.js";

/**
 * Least and greatest of a series in each pixel column, and where sampling paused.
 * @param {Context} g
 * @param {Columns[]} list
 * @param {number} s
 * @param {number} gap
 * @param {Plot} plot
 * @param {Scale} x
 * @param {Scale} y
 */
export const traceLine = (g, list, s, gap, plot, x, y) => {
  g.beginPath();
  let column = -1, low = 0, high = 0, lastEnd = -Infinity, open = false, lastY = 0;
  const flush = () => {
    if (column < 0) return;
    const yl = y(low), yh = y(high);
    const first = Math.abs(yl - lastY) < Math.abs(yh - lastY) ? yl : yh, second = first === yl ? yh : yl;
    if (open) g.lineTo(column, first); else { g.moveTo(column, first); g.lineTo(column + 0.01, first); open = true; }
    if (second !== first) g.lineTo(column, second);
    lastY = second;
  };
  for (const columns of list) {
    const { start, end, count } = columns, lows = columns.low[s], highs = columns.high[s];
    let i = Math.max(0, firstAtOrAfter(end, state.from) - 1);
    for (; i < count; i++) {
      if (isNaN(lows[i])) { if (column >= 0) { flush(); column = -1; } open = false; lastEnd = end[i]; continue; }
      const raw = x(start[i]), at = lows === highs && count < 4 * plot.width ? raw : Math.floor(raw) + 0.5;
      if (start[i] - lastEnd > gap && at !== column) { flush(); column = -1; open = false; }
      if (at === column) { if (lows[i] < low) low = lows[i]; if (highs[i] > high) high = highs[i]; }
      else { flush(); column = at; low = lows[i]; high = highs[i]; }
      lastEnd = end[i];
      if (start[i] > state.to) break;
    }
  }
  flush();
  g.stroke();
};
/**
 * Fills the area between two edges, which `edges` gives in bytes for an entry of the columns.
 * @param {Context} g
 * @param {Columns[]} list
 * @param {(high: Float64Array[], i: number) => [bottom: number, top: number]} edges
 * @param {number} gap
 * @param {Scale} x
 * @param {Scale} y
 */
export const shadeBand = (g, list, edges, gap, x, y) => {
  g.beginPath();
  for (const { start, end, high, count } of list) {
    for (let i = Math.max(0, firstAtOrAfter(end, state.from) - 1); i < count && start[i] <= state.to; i++) {
      const [bottom, top] = edges(high, i);
      if (!(top > bottom)) continue;
      const next = i + 1 < count && start[i + 1] - end[i] <= gap ? start[i + 1] : end[i];
      const left = x(start[i]), right = Math.max(x(next), left + 0.7);
      g.rect(left, y(top), right - left, y(bottom) - y(top));
    }
  }
  g.fill();
};
