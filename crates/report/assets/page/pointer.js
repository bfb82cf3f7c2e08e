/* Pointer, wheel and arrow keys on a plot and on the overview. */
/** @import { Panel, Plot } from "./types" */
import { LANE, chart, state } from "./chart.js";
import { soon } from "./frame.js";
import { overview } from "./overview.js";
import { hideTip, readout } from "./readout.js";
import { jump, pan, reset, setView, step, zoom } from "./view.js";

/**
 * How far to the right in a plot, from 0 to 1.
 * @param {Plot} plot
 * @param {number} offset
 */
const shareAt = (plot, offset) => Math.min(Math.max((offset - plot.x) / plot.width, 0), 1);
/**
 * @param {Plot} plot
 * @param {number} offset
 */
const timeAt = (plot, offset) => state.from + shareAt(plot, offset) * (state.to - state.from);
/** @param {Panel} panel */
export const listen = (panel) => {
  const canvas = panel.canvas;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button > 1) return;
    canvas.setPointerCapture(event.pointerId);
    const at = timeAt(panel.plot, event.offsetX);
    const panning = event.shiftKey || event.button === 1 || event.pointerType === "touch";
    state.drag = { kind: panning ? "pan" : "zoom", start: at, end: at, x: event.offsetX, from: state.from, to: state.to };
    if (event.button === 1) event.preventDefault();
  });
  canvas.addEventListener("pointermove", (event) => {
    const drag = state.drag;
    if (drag && drag.kind === "pan") {
      const by = (drag.x - event.offsetX) / panel.plot.width * (drag.to - drag.from);
      setView(drag.from + by, drag.to + by);
      return;
    }
    state.cursor = timeAt(panel.plot, event.offsetX);
    if (drag) drag.end = state.cursor;
    state.tip = { panel, clientX: event.clientX, clientY: event.clientY, y: event.offsetY };
    soon();
  });
  canvas.addEventListener("pointerup", (event) => {
    const drag = state.drag;
    state.drag = null;
    if (drag && drag.kind === "zoom" && Math.abs(event.offsetX - drag.x) > 4) {
      setView(Math.min(drag.start, drag.end), Math.max(drag.start, drag.end));
    } else if (drag) {
      const reach = (state.to - state.from) / panel.plot.width * 7, marks = panel.kind === "lines" ? panel.marks : [];
      const found = chart.spec.marks.findIndex((mark) => marks.includes(mark) && Math.abs(mark.t - drag.start) < reach);
      if (found >= 0 && event.offsetY < LANE + 4) jump(found); else readout(drag.start);
    }
    soon();
  });
  canvas.addEventListener("pointerleave", () => { if (!state.drag) { state.cursor = null; hideTip(); soon(); } });
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
    else zoom(Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 240) * 0.0022), timeAt(panel.plot, event.offsetX));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") event.shiftKey ? step(-1) : pan(-0.15);
    else if (event.key === "ArrowRight") event.shiftKey ? step(1) : pan(0.15);
    else return;
    event.preventDefault();
  });
};
/** @param {HTMLCanvasElement} canvas */
export const listenOverview = (canvas) => {
  /** @type {{ edge?: "from" | "to", by?: number, fresh?: number } | null} */
  let drag = null;
  /**
   * @param {Plot} plot
   * @param {PointerEvent} event
   */
  const at = (plot, event) => shareAt(plot, event.offsetX) * chart.length;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    const { plot } = overview;
    if (!plot) return;
    const t = at(plot, event), reach = chart.length / plot.width * 7;
    if (Math.abs(t - state.from) < reach) drag = { edge: "from" };
    else if (Math.abs(t - state.to) < reach) drag = { edge: "to" };
    else if (t > state.from && t < state.to && state.to - state.from < chart.length * 0.999) drag = { by: t - state.from };
    else drag = { fresh: t };
  });
  canvas.addEventListener("pointermove", (event) => {
    const { plot } = overview;
    if (!drag || !plot) return;
    const t = at(plot, event);
    if (drag.edge === "from") setView(Math.min(t, state.to), state.to);
    else if (drag.edge === "to") setView(state.from, Math.max(t, state.from));
    else if (drag.by !== undefined) { const width = state.to - state.from; setView(t - drag.by, t - drag.by + width); }
    else if (drag.fresh !== undefined) setView(Math.min(t, drag.fresh), Math.max(t, drag.fresh));
  });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") pan(-0.15); else if (event.key === "ArrowRight") pan(0.15); else return;
    event.preventDefault();
  });
};
