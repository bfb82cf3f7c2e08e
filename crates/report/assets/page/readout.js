/* The values at the cursor: in a box beside it, and as a sentence for screen readers. */
/** @import { Panel, Row, Tip } from "./types" */
import { exact, human } from "./bytes.js";
import { chart, isShown, state } from "./chart.js";
import { colours } from "./colours.js";
import { nearest } from "./columns.js";
import { el } from "./dom.js";
import { seconds, sentence, wall } from "./words.js";

/**
 * @param {Panel} panel
 * @param {number} at
 * @returns {{ rows: Row[], time: number, note?: string | null }}
 */
const rowsAt = (panel, at) => {
  if (panel.kind === "heat") {
    const column = Math.min(Math.floor(at / chart.length * panel.columns), panel.columns - 1);
    return { rows: panel.cells.map((cells, row) => ({ name: "rank " + panel.rows[row], value: cells[column], row })), time: at };
  }
  /** @type {Row[]} */
  const rows = [];
  let time = at, note = null;
  for (const track of panel.tracks) {
    const found = nearest(track, at);
    if (!found) continue;
    time = found.time;
    if (track.notes) note = track.notes[found.index];
    track.series.forEach((series, s) => {
      if (!isShown(panel, track, s)) return;
      const name = track.series[0].colour === "envelope" ? `${track.label}, ${series.name}` : series.name;
      rows.push({ name, colour: series.colour, value: found.values[s] });
    });
  }
  return { rows, time: panel.tracks.length === 1 ? time : at, note };
};
export const tip = el("div", { id: "tip", role: "status", hidden: "" });
export const hideTip = () => { state.tip = null; tip.hidden = true; };
/** @param {Tip} shown */
export const showTip = ({ panel, clientX, clientY, y }) => {
  const at = state.cursor ?? 0, found = rowsAt(panel, at);
  let { rows } = found;
  if (panel.kind === "heat") {
    const row = Math.floor((y - panel.plot.y) / panel.plot.height * panel.rows.length);
    rows = rows.filter((entry) => Math.abs((entry.row ?? 0) - row) <= 3);
    rows.forEach((entry) => { entry.here = entry.row === row; });
  }
  const table = el("table");
  for (const entry of rows.slice(0, 24)) {
    const swatch = el("span", { class: "swatch" });
    swatch.style.cssText = `display:inline-block;margin-right:6px;background:${entry.colour ? colours[entry.colour] : "transparent"}`;
    const name = el("td", {}, swatch, entry.name);
    if (entry.here) name.style.fontWeight = "700";
    const known = !isNaN(entry.value);
    table.append(el("tr", {}, name, el("td", {}, known ? human(entry.value) : "unknown"), el("td", { class: "exact" }, known ? exact.format(entry.value) + " B" : "")));
  }
  tip.replaceChildren(el("div", { class: "when" }, `${seconds(found.time)}   ${wall(found.time)}`), table);
  /** @param {string} text */
  const say = (text) => tip.append(el("div", { class: "said" }, text));
  if (found.note) say(found.note);
  if (panel.kind === "lines") {
    const reach = (state.to - state.from) / Math.max(panel.plot.width, 1) * 6;
    for (const mark of panel.marks) {
      if (mark.times.some((t) => Math.abs(t - at) < reach)) say(`${mark.severity}: ${sentence(mark)}`);
    }
    for (const phase of panel.phases) {
      if (phase.from <= at && at <= phase.to) say("phase: " + phase.path);
    }
  }
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = (clientX + 18 + box.width > innerWidth ? clientX - 18 - box.width : clientX + 18) + "px";
  tip.style.top = Math.max(4, Math.min(clientY + 14, innerHeight - box.height - 4)) + "px";
};
export const status = el("div", { id: "readout", "aria-live": "polite" });
/** @param {number} at */
export const readout = (at) => {
  const panel = chart.panels[0];
  if (!panel) return;
  const { rows, time } = rowsAt(panel, at);
  const text = rows.slice(0, 8).map((row) => `${row.name} ${isNaN(row.value) ? "unknown" : human(row.value) + " (" + exact.format(row.value) + " B)"}`);
  status.textContent = `${seconds(time)}: ${text.join(", ")}`;
};
