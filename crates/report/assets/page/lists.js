/* The lists below the plots: events, facts, ledgers, shortcuts. */
/** @import { Ledger } from "./types" */
import { chart } from "./chart.js";
import { el } from "./dom.js";
import { jump } from "./view.js";
import { seconds, sentence } from "./words.js";

const events = () => {
  const marks = el("ol", { class: "marks" });
  chart.spec.marks.forEach((mark, place) => {
    const sign = el("span", { class: "sign" });
    sign.dataset.colour = mark.severity;
    const button = el("button", { type: "button" }, sign, el("span", { class: "time" }, seconds(mark.t)), el("span", { class: "said" }, sentence(mark)));
    button.addEventListener("click", () => jump(place));
    marks.append(el("li", {}, button));
  });
  const none = el("p", { class: "subtitle" }, "no alerts, no errors, no findings");
  return el("section", {}, el("h2", {}, "events"), chart.spec.marks.length ? marks : none);
};
const facts = () => {
  const table = el("table", { class: "facts" });
  for (const [name, value] of chart.spec.facts) table.append(el("tr", {}, el("td", {}, name), el("td", {}, value)));
  return el("section", {}, el("h2", {}, "facts"), table);
};
/** @param {Ledger} ledger */
const ledgerOf = ({ title, lines, unknown }) => {
  const table = el("table", { class: "ledger" });
  for (const [size, name, share] of lines) {
    const part = share === null ? "" : el("meter", { min: "0", max: "1", value: String(share), title: `${(share * 100).toFixed(1)} %` });
    table.append(el("tr", {}, el("td", {}, size), el("td", {}, name), el("td", {}, part)));
  }
  return el("section", {}, el("h2", {}, title), table, unknown ? el("p", { class: "subtitle" }, unknown) : "");
};
export const lists = () => {
  const { spec } = chart;
  return el("div", { class: "columns" }, ...(spec.axis ? [] : [events()]), ...(spec.facts.length ? [facts()] : []), ...(spec.ledgers || []).map(ledgerOf));
};
const KEYS = [["drag", "zoom in"], ["wheel", "zoom"], ["shift+drag", "pan"], ["double click, 0", "show all"], ["← →", "pan"], ["+ −", "zoom"], ["shift+← →", "sample by sample"], ["n p", "next, previous event"], ["t", "light or dark"]];
export const shortcuts = () => el("details", {}, el("summary", {}, "shortcuts"), ...KEYS.map(([key, what]) => el("div", {}, el("kbd", {}, key), " " + what)));
