/* Builds the page of the data: verdict, panels, lists. */
/** @import { Heat, LinesPanel, LinesSpec, Panel } from "./types" */
import { PHASE, chart, keyOf, state } from "./chart.js";
import { app, el } from "./dom.js";
import { soon } from "./frame.js";
import { legendOf } from "./legend.js";
import { lists, shortcuts } from "./lists.js";
import { overview } from "./overview.js";
import { listen, listenOverview } from "./pointer.js";
import { status, tip } from "./readout.js";

/** The lines whose first state is known. */
const seen = new Set();
/** The plot of a panel before it is drawn. */
const NO_PLOT = { x: 0, y: 0, width: 1, height: 1, right: 1, bottom: 1 };
/**
 * @param {LinesSpec} wanted
 * @param {HTMLCanvasElement} canvas
 * @param {number} place
 * @returns {LinesPanel}
 */
const linesPanel = (wanted, canvas, place) => {
  const { spec } = chart, tracks = wanted.tracks.map((id) => spec.tracks[id]), ranks = tracks.map((track) => track.rank), isOne = tracks.length === 1;
  /** @param {number | null} rank */
  const ours = (rank) => rank === null || ranks.includes(rank) || ranks.includes(null);
  const hasHost = spec.panels.some((panel) => panel.kind === "lines" && panel.host);
  const phases = isOne && !wanted.focus ? spec.phases.filter((phase) => phase.rank === ranks[0]) : [];
  const deepest = phases.reduce((most, phase) => Math.max(most, phase.depth + 1), 0);
  return {
    ...wanted, place, canvas, plot: NO_PLOT, tracks, phases,
    // What is about host memory stands there, where it has a panel.
    marks: spec.marks.filter((mark) => ours(mark.rank) && (wanted.focus ? mark.host === wanted.focus.host && mark.severity !== "info" : !hasHost || mark.host === Boolean(wanted.host))),
    requests: wanted.focus ? wanted.focus.requests : isOne && tracks[0].series.length > 1 ? spec.requests.filter((request) => request.rank === ranks[0]) : [],
    phaseHeight: Math.min(deepest, 3) * PHASE + (deepest ? 3 : 0),
  };
};
/** @param {(LinesSpec | Heat)[]} panels */
export const build = (panels) => {
  const { spec } = chart;
  chart.panels = []; overview.canvas = null;
  app.replaceChildren();
  const more = el("details", { class: "more" }, el("summary", {}, "other memory of this run"));
  more.addEventListener("toggle", soon);
  if (spec.verdict) app.append(el("p", { class: "verdict " + spec.verdict[0] }, spec.verdict[1]));
  for (const line of spec.cause || []) app.append(el("p", { class: "cause" }, line));
  if (spec.advice) app.append(el("p", { class: "advice" }, "What to do: " + spec.advice));
  for (const line of spec.notes || []) app.append(el("p", { class: "advice" }, line));
  panels.forEach((wanted, place) => {
    const canvas = el("canvas", { class: "plot" + (place > 0 ? " short" : ""), tabindex: "0", role: "img", "aria-label": `${wanted.title}: plot over time, arrow keys pan, plus and minus zoom` });
    /** @type {Panel} */
    const panel = wanted.kind === "lines" ? linesPanel(wanted, canvas, place) : { ...wanted, place, canvas, plot: NO_PLOT };
    chart.panels.push(panel);
    for (const track of panel.kind === "lines" ? panel.tracks : []) track.series.forEach((series, s) => {
      // A line that the reader has selected stays selected when the page gets new data.
      const key = keyOf(/** @type {LinesPanel} */ (panel), track, s);
      if (series.off && !seen.has(key)) state.hidden.add(key);
      seen.add(key);
    });
    const legend = el("div", { class: "legend" }, ...(panel.kind === "lines" ? legendOf(panel) : []));
    const focus = panel.kind === "lines" ? panel.focus : undefined;
    if (focus) legend.replaceChildren(el("p", { class: "words " + focus.severity }, focus.words));
    const section = el("section", {}, el("h2", {}, panel.title), legend, el("div", { class: "stage" }, canvas));
    (wanted.more ? more : app).append(section);
    listen(panel);
    if (place === 0) {
      overview.canvas = el("canvas", { class: "overview", tabindex: "0", role: "img", "aria-label": "whole recording; drag to select a part" });
      app.append(overview.canvas, status);
      listenOverview(overview.canvas);
    }
  });
  if (more.children.length > 1) app.append(more);
  app.append(lists(), shortcuts(), tip);
};
