/* Canvases, plots and their axes. */
/** @import { Context, Plot, Scale } from "./types" */
import { exact, unitOf } from "./bytes.js";
import { BOTTOM, LEFT, chart, state } from "./chart.js";
import { colours } from "./colours.js";
import { seconds } from "./words.js";

/**
 * Makes a canvas as sharp as the screen, and empty.
 * @param {HTMLCanvasElement} canvas
 * @returns {[Context, number, number]}
 */
export const fitCanvas = (canvas) => {
  const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const context = /** @type {Context} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, box.width, box.height);
  context.font = "12px Roboto, system-ui, sans-serif";
  return [context, box.width, box.height];
};
/**
 * @param {number} width
 * @param {number} height
 * @param {number} top
 * @param {number} below
 * @returns {Plot}
 */
export const plotIn = (width, height, top, below = BOTTOM) => {
  const plot = { x: LEFT, y: top, width: width - LEFT - chart.right, height: height - top - below };
  return { ...plot, right: plot.x + plot.width, bottom: plot.y + plot.height };
};
/**
 * @param {Plot} plot
 * @returns {Scale}
 */
export const timeScale = (plot) => (t) => plot.x + (t - state.from) / (state.to - state.from) * plot.width;
/** @param {number} step */
const nice = (step) => {
  const power = 10 ** Math.floor(Math.log10(step));
  return ([1, 2, 5].find((factor) => factor * power >= step * 0.999999) || 10) * power;
};
/** @param {number} raw */
const timeStep = (raw) => {
  if (chart.length < 300e9 || raw < 1 || chart.spec.axis === "step") return nice(raw);
  return [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].find((s) => s >= raw) || 86400 * nice(raw / 86400);
};
/**
 * @param {Context} g
 * @param {Plot} plot
 * @param {Scale} x
 */
export const timeAxis = (g, plot, x) => {
  const range = (state.to - state.from) / 1e9, step = timeStep(range / Math.max(2, Math.round(plot.width / 85)));
  const digits = Math.max(0, -Math.floor(Math.log10(step))), isStep = chart.spec.axis === "step";
  g.fillStyle = colours.muted; g.strokeStyle = colours.axis; g.textAlign = "center"; g.lineWidth = 1;
  g.beginPath(); g.moveTo(plot.x, plot.bottom + 0.5); g.lineTo(plot.right, plot.bottom + 0.5);
  const offset = chart.spec.offset || 0;
  for (let i = Math.ceil((state.from + offset) / 1e9 / step); i * step * 1e9 <= state.to + offset; i++) {
    const at = x(i * step * 1e9 - offset);
    g.moveTo(at, plot.bottom); g.lineTo(at, plot.bottom + 5);
    if (isStep && digits > 0) continue;
    const text = isStep ? exact.format(i * step) : chart.length < 300e9 || step < 1 ? (i * step).toFixed(digits) + " s" : seconds(i * step * 1e9 - offset).replace(/\.\d+$/, "");
    g.fillText(text, at, plot.bottom + 18);
  }
  g.stroke();
};
/**
 * @param {Context} g
 * @param {Plot} plot
 * @param {number} low
 * @param {number} high
 */
export const byteAxis = (g, plot, low, high) => {
  const [unit, size] = unitOf(Math.max(Math.abs(low), Math.abs(high), 1));
  const step = nice(Math.max((high - low) / size / Math.max(2, Math.round(plot.height / 52)), unit === "B" ? 1 : 1e-6));
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  g.strokeStyle = colours.grid; g.fillStyle = colours.muted; g.textAlign = "right"; g.lineWidth = 1;
  g.beginPath();
  for (let i = Math.ceil(low / size / step); i * step * size <= high * 1.0001; i++) {
    const y = Math.round(plot.bottom - (i * step * size - low) / (high - low) * plot.height) + 0.5;
    g.moveTo(plot.x, y); g.lineTo(plot.right, y);
    g.fillText((i * step).toFixed(digits) + (i * step * size + step * size > high ? " " + unit : ""), plot.x - 6, y + 4);
  }
  g.stroke();
};
/**
 * The round number of bytes at which the axis of a peak ends.
 * @param {number} peak
 */
export const ceiling = (peak) => {
  const padded = Math.max(peak, 1) * 1.05, [, size] = unitOf(padded), step = nice(padded / size / 5);
  return Math.ceil(padded / size / step) * step * size;
};
