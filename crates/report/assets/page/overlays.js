/* What is drawn over and beside the lines: phases, marks, requests that failed, the cursor. */
/** @import { Context, LinesPanel, Plot, Request, Scale } from "./types" */
import { human } from "./bytes.js";
import { LANE, PHASE, chart, state } from "./chart.js";
import { colours } from "./colours.js";
import { label } from "./words.js";

/**
 * @param {Context} g
 * @param {Plot} plot
 * @param {Scale} x
 * @param {LinesPanel} panel
 */
export const drawBackdrop = (g, plot, x, panel) => {
  g.fillStyle = colours.panel; g.fillRect(plot.x, plot.y, plot.width, plot.height);
  /** @type {string[]} */
  const names = [];
  for (const phase of panel.phases) {
    if (!names.includes(phase.name)) names.push(phase.name);
    if (phase.to < state.from || phase.from > state.to || phase.depth > 2) continue;
    const left = Math.max(x(phase.from), plot.x), right = Math.min(x(phase.to), plot.right);
    const top = plot.y - panel.phaseHeight + phase.depth * PHASE;
    g.fillStyle = colours["phase" + names.indexOf(phase.name) % 6];
    g.fillRect(left, top, Math.max(right - left, 0.5), PHASE - 1);
    if (phase.depth === 0) { g.globalAlpha = 0.25; g.fillRect(left, plot.y, right - left, plot.height); g.globalAlpha = 1; }
    if (right - left > 30) {
      g.save(); g.beginPath(); g.rect(left, top, right - left - 4, PHASE); g.clip();
      g.fillStyle = colours.text; g.textAlign = "left"; g.fillText(phase.name, left + 4, top + 11); g.restore();
    }
  }
};
/**
 * @param {Context} g
 * @param {Plot} plot
 * @param {Scale} x
 * @param {LinesPanel} panel
 */
export const drawMarks = (g, plot, x, panel) => {
  let free = -Infinity;
  panel.marks.forEach((mark) => {
    const chosen = chart.spec.marks[state.mark] === mark;
    if (mark.end !== null && mark.end >= state.from && mark.t <= state.to) {
      g.globalAlpha = 0.1; g.fillStyle = colours[mark.severity];
      const left = Math.max(x(mark.t), plot.x);
      g.fillRect(left, plot.y, Math.max(Math.min(x(mark.end), plot.right) - left, 1), plot.height); g.globalAlpha = 1;
    }
    g.strokeStyle = g.fillStyle = colours[mark.severity];
    let lastTick = -Infinity;
    for (const t of mark.times.slice(1)) {
      const at = x(t);
      if (t < state.from || t > state.to || at - lastTick < 1.5) continue;
      lastTick = at; g.fillRect(at - 0.6, plot.y, 1.2, 7);
    }
    if (mark.t < state.from || mark.t > state.to * 1.02) return;
    const at = Math.min(x(mark.t), plot.right), y = 10;
    g.lineWidth = chosen ? 2 : 1; g.setLineDash([5, 4]);
    g.beginPath(); g.moveTo(at, y); g.lineTo(at, plot.bottom); g.stroke(); g.setLineDash([]);
    g.beginPath();
    if (mark.severity === "critical") { g.moveTo(at, y - 6); g.lineTo(at + 5, y); g.lineTo(at, y + 6); g.lineTo(at - 5, y); }
    else if (mark.severity === "warning") { g.moveTo(at, y - 5); g.lineTo(at + 5, y + 4); g.lineTo(at - 5, y + 4); }
    else g.arc(at, y, 4, 0, 7);
    g.fill();
    const text = label(mark), width = Math.min(g.measureText(text).width, 300);
    const flip = at + 10 + width > plot.right, left = flip ? at - 10 - width : at + 9;
    if (left > free && left >= plot.x - 8) {
      g.save(); g.beginPath(); g.rect(left, 0, width, LANE); g.clip();
      g.textAlign = "left"; g.fillText(text, left, y + 4); g.restore();
      free = flip ? at + 8 : left + width + 10;
    }
  });
};
/**
 * A request that failed: a hatched bar from the level in use upwards, inside the plot.
 * @param {Context} g
 * @param {Plot} plot
 * @param {Scale} x
 * @param {Scale} y
 * @param {Request[]} requests
 * @param {[from: number, to: number, y: number][]} taken labels that are in the plot already
 */
export const drawRequests = (g, plot, x, y, requests, taken) => {
  const WIDE = 18, limit = Math.min(...requests.map((request) => request.limit ?? Infinity));
  if (isFinite(limit) && y(limit) > plot.y + 0.5) {
    g.strokeStyle = g.fillStyle = colours.capacity; g.lineWidth = 1.5; g.setLineDash([5, 4]); g.textAlign = "left";
    g.beginPath(); g.moveTo(plot.x, y(limit)); g.lineTo(plot.right, y(limit)); g.stroke(); g.setLineDash([]);
    const text = `limit of this process ${human(limit)}`, at = Math.max(y(limit) - 4, plot.y + 12);
    g.fillText(text, plot.x + 6, at);
    taken.push([plot.x + 6, plot.x + 6 + g.measureText(text).width, at]);
  }
  for (const request of requests) {
    if (request.t < state.from || request.t > state.to + (state.to - state.from) * 0.02) continue;
    const right = Math.min(Math.max(x(request.t), plot.x + WIDE), plot.right);
    const bottom = Math.max(y(request.in_use), plot.y + 4), top = Math.min(y(request.in_use + request.requested), bottom - 4);
    g.save(); g.strokeStyle = g.fillStyle = colours.critical; g.lineWidth = 1.4;
    g.strokeRect(right - WIDE, top, WIDE, bottom - top);
    g.beginPath(); g.rect(right - WIDE, top, WIDE, bottom - top); g.clip();
    g.globalAlpha = 0.7; g.lineWidth = 1; g.beginPath();
    for (let at = 6; at < WIDE + bottom - top; at += 6) { g.moveTo(right - WIDE, top + at); g.lineTo(right - WIDE + at, top); }
    g.stroke(); g.restore();
    const width = g.measureText(request.label).width, left = right - WIDE - 8 - width;
    g.fillStyle = colours.critical; g.textAlign = "left";
    const from = Math.max(left >= plot.x ? left : Math.min(right + 8, plot.right - width), plot.x);
    const isFree = (/** @type {number} */ at) => taken.every(([a, b, other]) => b < from || a > from + width || Math.abs(at - other) >= 15);
    const wanted = Math.min(Math.max((top + bottom) / 2 + 4, plot.y + 12), plot.bottom - 6);
    // Below the wanted place first, then above it.
    let at = wanted;
    while (!isFree(at) && at + 15 <= plot.bottom) at += 15;
    while (!isFree(at) && at - 15 >= plot.y) at -= 15;
    if (!isFree(at)) continue;
    taken.push([from, from + width, at]);
    g.fillText(request.label, from, at);
  }
};
/**
 * @param {Context} g
 * @param {Plot} plot
 * @param {Scale} x
 */
export const drawCursor = (g, plot, x) => {
  const { cursor, drag } = state;
  if (drag && drag.kind === "zoom") {
    const [a, b] = [drag.start, drag.end].sort((p, q) => p - q);
    g.globalAlpha = 0.15; g.fillStyle = colours.focus; g.fillRect(x(a), plot.y, x(b) - x(a), plot.height); g.globalAlpha = 1;
  }
  if (cursor !== null && cursor >= state.from && cursor <= state.to) {
    g.strokeStyle = colours.muted; g.lineWidth = 1; g.beginPath();
    g.moveTo(Math.round(x(cursor)) + 0.5, plot.y); g.lineTo(Math.round(x(cursor)) + 0.5, plot.bottom); g.stroke();
  }
};
