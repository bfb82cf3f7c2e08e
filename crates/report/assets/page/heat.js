/* Draws a heat map: the memory of each rank in each part of the time. */
/** @import { Context, Heat, HeatPanel, HeatSpec } from "./types" */
import { fitCanvas, plotIn, timeAxis, timeScale } from "./axes.js";
import { human } from "./bytes.js";
import { chart, state } from "./chart.js";
import { colours, heatColour } from "./colours.js";
import { drawCursor } from "./overlays.js";
import { Reader, inflate } from "./packed.js";

/** @param {HeatPanel} panel */
export const drawHeat = (panel) => {
  if (!panel.canvas.clientWidth) return;
  const [g, width, height] = fitCanvas(panel.canvas);
  const plot = panel.plot = plotIn(width, height, 6);
  const x = timeScale(plot);
  g.fillStyle = colours.grid; g.fillRect(plot.x, plot.y, plot.width, plot.height);
  const n = panel.columns, first = state.from / chart.length * n, count = (state.to - state.from) / chart.length * n;
  g.imageSmoothingEnabled = false;
  g.drawImage(panel.image, first, 0, Math.max(count, 0.01), panel.rows.length, plot.x, plot.y, plot.width, plot.height);
  g.fillStyle = colours.muted; g.textAlign = "right";
  const row = plot.height / panel.rows.length;
  let free = -Infinity;
  panel.rows.forEach((name, i) => {
    const y = plot.y + (i + 0.5) * row + 4;
    if (y < free) return;
    g.fillText(name, plot.x - 6, y); free = y + 13;
  });
  for (let i = 0; i < 48; i++) {
    g.fillStyle = `rgb(${heatColour((i + 0.5) / 48)})`;
    g.fillRect(plot.right + 14, plot.bottom - (i + 1) / 48 * plot.height, 12, plot.height / 48 + 0.5);
  }
  g.fillStyle = colours.muted; g.textAlign = "left";
  g.fillText(human(panel.high), plot.right + 30, plot.y + 10); g.fillText(human(panel.low), plot.right + 30, plot.bottom);
  timeAxis(g, plot, x);
  drawCursor(g, plot, x);
};
/**
 * Unpacks the cells of a heat map and paints them, a pixel each.
 * @param {HeatSpec} spec
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<Heat>}
 */
export const makeHeat = async (spec, bytes) => {
  const reader = new Reader(await inflate(bytes.subarray(spec.offset, spec.offset + spec.size)));
  const cells = spec.rows.map(() => reader.values(spec.columns));
  const image = document.createElement("canvas");
  image.width = spec.columns; image.height = spec.rows.length;
  const g = /** @type {Context} */ (image.getContext("2d")), pixels = g.createImageData(image.width, image.height);
  cells.forEach((row, r) => row.forEach((value, c) => {
    if (isNaN(value)) return;
    pixels.data.set([...heatColour((value - spec.low) / (spec.high - spec.low)), 255], (r * spec.columns + c) * 4);
  }));
  g.putImageData(pixels, 0, 0);
  return { ...spec, cells, image };
};
