/* Times and marks as text. */
/** @import { Mark } from "./types" */
import { exact } from "./bytes.js";
import { chart, state } from "./chart.js";

/** @param {number} ns */
export const seconds = (ns) => {
  if (chart.spec.axis === "step") return "step " + exact.format(Math.round(ns / 1e9));
  const s = (ns + (chart.spec.offset || 0)) / 1e9, range = (state.to - state.from) / 1e9;
  if (chart.length < 300e9) return s.toFixed(range < 0.02 ? 6 : range < 2 ? 4 : 3) + " s";
  const whole = Math.floor(Math.abs(s)), part = (Math.abs(s) - whole).toFixed(3).slice(1);
  /** @param {number} n */
  const two = (n) => String(n).padStart(2, "0");
  return `${s < 0 ? "-" : ""}${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}${range < 120 ? part : ""}`;
};
/** @param {number} ns */
export const wall = (ns) => {
  const { axis, zero_ms, zero_ns_rest } = chart.spec;
  if (axis) return "";
  const date = new Date(zero_ms + (ns + zero_ns_rest) / 1e6);
  return isNaN(date.getTime()) ? "" : date.toISOString().replace("T", " ").replace("Z", " UTC");
};
/** @param {Mark} mark */
const ofRank = (mark) => (chart.spec.several && mark.rank !== null ? `rank ${mark.rank}: ` : "");
/** @param {Mark} mark */
export const label = (mark) => ofRank(mark) + mark.label;
/** @param {Mark} mark */
export const sentence = (mark) => (/^Rank \d/.test(mark.detail) ? "" : ofRank(mark)) + mark.detail;
