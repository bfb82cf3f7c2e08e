/* Draws the panels of a page from packed levels of detail; uses no network. A file holds its data in
   the page; a served page passes data to `stormlogPlot.show`, again whenever the recording has grown. */
/** @import { Drawing, Spec } from "./types" */
import { build } from "./build.js";
import { chart, state } from "./chart.js";
import { paintSwatches } from "./colours.js";
import { forgetBlocks } from "./columns.js";
import "./controls.js";
import { app } from "./dom.js";
import "./draw.js";
import { drawNow } from "./frame.js";
import { makeHeat } from "./heat.js";
import { decoded, unpack } from "./packed.js";
import { hideTip } from "./readout.js";
import { setView, watcher } from "./view.js";

/** Where the keyboard is and how far lists are scrolled, before they are built again. */
const places = () => {
  const all = () => [...app.querySelectorAll(/** @type {"button"} */ ("button, canvas, summary"))];
  const list = () => app.querySelector(".marks"), details = () => app.querySelectorAll("details");
  const focused = all().findIndex((one) => one === document.activeElement), scrolled = list()?.scrollTop || 0, areOpen = [...details()].map((one) => [one.className, one.open]);
  return () => {
    all()[focused]?.focus({ preventScroll: true });
    const marks = list();
    if (marks) marks.scrollTop = scrolled;
    for (const one of details()) if (areOpen.some(([name, open]) => open && name === one.className)) one.open = true;
  };
};
/**
 * Unpacks what is drawn at once: the coarsest level of each track, and the heat maps, which it returns among the panels.
 * @param {Spec} spec
 * @param {(store: number) => Uint8Array<ArrayBuffer>} bytes
 */
const unpackOverview = async (spec, bytes) => {
  const tracks = spec.tracks.flatMap((track, id) => {
    track.id = id;
    for (const level of track.levels) level.bytes = () => bytes(level.store);
    const level = track.levels[track.levels.length - 1];
    return level.blocks.map(async (block) => {
      block.keep = true;
      block.columns = await unpack(track, level, block);
    });
  });
  await Promise.all(tracks);
  return Promise.all(spec.panels.map((panel) => (panel.kind === "heat" ? makeHeat(panel, bytes(0)) : panel)));
};
/**
 * Draws data: at first all of it or the wanted part, later the same part. A view that reached the end follows it.
 * @param {Spec} spec
 * @param {(store: number) => Uint8Array<ArrayBuffer>} bytes
 * @param {[number, number]} [wanted]
 */
const show = async (spec, bytes, wanted) => {
  const panels = await unpackOverview(spec, bytes);
  /** @param {Spec} spec */
  const zero = (spec) => spec.zero_ms * 1e6 + spec.zero_ns_rest;
  const length = Math.max(spec.length, 1);
  let view = wanted || [0, length];
  if (chart.isDrawn) {
    const moved = zero(chart.spec) - zero(spec);
    view = [state.from + moved, state.to + moved];
    if (state.to >= chart.length) view = state.from <= 0 ? [0, length] : [length - (state.to - state.from), length];
    if (state.cursor !== null) state.cursor += moved;
  }
  const restore = places();
  chart.isDrawn = true; chart.spec = spec; chart.length = length;
  // Room for the scale of colours.
  chart.right = spec.panels.some((panel) => panel.kind === "heat") ? 96 : 14;
  forgetBlocks();
  [state.from, state.to] = view;
  build(panels);
  restore();
  if (state.tip) hideTip();
  paintSwatches();
  setView(view[0], view[1]);
  drawNow();
  app.dataset.ready = "1";
  app.dataset.shown = String(Number(app.dataset.shown || 0) + 1);
  performance.mark("stormlog-drawn");
};
/**
 * Decodes a store when it is needed first.
 * @param {(store: number) => string} packed
 */
const stores = (packed) => {
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const plain = [];
  return (/** @type {number} */ store) => (plain[store] ||= decoded(packed(store)));
};
/** @param {string} id */
const textOf = (id) => document.getElementById(id)?.textContent || "";

if (document.getElementById("spec")) {
  show(JSON.parse(textOf("spec")), stores((store) => textOf(store === 0 ? "overview" : "detail")));
} else {
  window.stormlogPlot = Object.assign(watcher, {
    /**
     * @param {Drawing} drawing
     * @param {[number, number]} [seconds]
     */
    show: ({ spec, overview, detail }, seconds) => show(spec, stores((store) => (store === 0 ? overview : detail)), seconds && [seconds[0] * 1e9, seconds[1] * 1e9]),
  });
}
