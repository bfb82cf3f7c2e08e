/* The buttons and the keys of the page, and its theme. */
import { chart, state } from "./chart.js";
import { paintSwatches } from "./colours.js";
import { el, root } from "./dom.js";
import { drawNow, soon } from "./frame.js";
import { jump, reset, zoom } from "./view.js";

const darkSystem = matchMedia("(prefers-color-scheme: dark)");
/** @param {string | undefined} theme */
const setTheme = (theme) => { root.dataset.theme = theme; soon(); };
const toggleTheme = () => {
  const { theme } = root.dataset, isDark = theme === "dark" || (theme === "system" && darkSystem.matches);
  setTheme(isDark ? "light" : "dark");
};
/**
 * @param {string} id
 * @param {string} text
 * @param {string} title
 * @param {() => void} action
 */
const tool = (id, text, title, action) => {
  const button = el("button", { type: "button", title, id }, text);
  button.addEventListener("click", action);
  document.getElementById("tools")?.append(button);
};
tool("zoom-out", "−", "zoom out", () => zoom(1.6));
tool("zoom-in", "+", "zoom in", () => zoom(0.6));
tool("reset", "Reset", "show everything", reset);
tool("theme", "Theme", "light or dark", toggleTheme);

/** @type {Record<string, () => void>} */
const KEYS = {
  "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6), "0": reset, Home: reset,
  n: () => jump(state.mark + 1), p: () => jump(state.mark - 1), t: toggleTheme,
};
document.addEventListener("keydown", (event) => {
  if (!chart.isDrawn || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof Element && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const act = Object.hasOwn(KEYS, event.key) && KEYS[event.key];
  if (act) { act(); event.preventDefault(); }
});
/** @type {string | undefined} */
let before;
addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; paintSwatches(); drawNow(); });
addEventListener("afterprint", () => { setTheme(before); });
darkSystem.addEventListener("change", () => { paintSwatches(); soon(); });
addEventListener("resize", soon);
new MutationObserver(paintSwatches).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
