/* The legend of a panel: shows and hides its series. */
/** @import { LinesPanel, Series, Track } from "./types" */
import { human } from "./bytes.js";
import { isShown, keyOf, state } from "./chart.js";
import { el } from "./dom.js";
import { soon } from "./frame.js";

/**
 * @param {LinesPanel} panel
 * @param {Track} track
 * @param {Series} series
 * @param {number} s
 */
const buttonFor = (panel, track, series, s) => {
  const isEnvelope = series.colour === "envelope";
  const swatch = el("span", { class: "swatch" });
  swatch.dataset.colour = series.colour;
  const peak = series.peak === null ? "" : series.colour === "capacity" ? " " + human(series.peak) : ` (peak ${human(series.peak)})`;
  const name = isEnvelope ? `${track.label}: median, middle 80 %, all` : series.name + peak;
  const button = el("button", { type: "button", "aria-pressed": String(isShown(panel, track, s)), title: "show or hide" }, swatch, name);
  button.addEventListener("click", () => {
    for (const at of isEnvelope ? [0, 1, 2, 3, 4] : [s]) { const key = keyOf(panel, track, at); if (!state.hidden.delete(key)) state.hidden.add(key); }
    button.setAttribute("aria-pressed", String(isShown(panel, track, s)));
    soon();
  });
  return button;
};
/** @param {LinesPanel} panel */
export const legendOf = (panel) => panel.tracks.flatMap((track) => track.series.flatMap((series, s) =>
  // An envelope is five series and one button.
  (series.colour === "envelope" && s !== 2 ? [] : [buttonFor(panel, track, series, s)])));
