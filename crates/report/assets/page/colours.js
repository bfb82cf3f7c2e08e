/* The colours of the theme, which the style sheet defines. */
import { root } from "./dom.js";

const style = getComputedStyle(root);
/** @type {Record<string, string>} */
export const colours = new Proxy({}, { get: (_, name) => style.getPropertyValue("--" + String(name)).trim() });
export const paintSwatches = () => document.querySelectorAll("[data-colour]").forEach((node) => {
  if (!(node instanceof HTMLElement)) return;
  const name = node.dataset.colour || "";
  node.style.background = colours[name === "envelope" ? "text" : name];
});

const HEAT = ["440f5c", "46327e", "365c8d", "277f8e", "1fa187", "4ac16d", "a0da39", "e4e119", "fde725"]
  .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
/** @param {number} share */
export const heatColour = (share) => {
  const place = Math.min(Math.max(share, 0), 1) * (HEAT.length - 1), below = Math.min(Math.floor(place), HEAT.length - 2);
  return HEAT[below].map((c, i) => Math.round(c + (HEAT[below + 1][i] - c) * (place - below)));
};
