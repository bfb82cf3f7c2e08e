/* Moves the boxes of the flame graphs that a page contains as pictures (held.rs): zoom, search, and
   a line that describes the box under the pointer or the keyboard. Boxes are laid out again from
   their bytes, so that a narrow one is exact when it is wide. */
import { human } from "./bytes.js";

// As in held.rs.
const WIDTH = 1000, LETTER = 6.3, NARROWEST = 1;

/**
 * A box of a flame graph.
 * @typedef {object} Box
 * @property {SVGGElement} node
 * @property {Element} rect
 * @property {Element} text
 * @property {Box | null} parent
 * @property {Box[]} children
 * @property {string} name
 * @property {number} bytes
 * @property {string} words
 * @property {boolean} isShown
 * @property {boolean} isMatch
 */

/**
 * The only element that a selector names below a node.
 * @param {ParentNode} node
 * @param {string} selector
 */
const only = (node, selector) => /** @type {Element} */ (node.querySelector(selector));
/**
 * The boxes of a graph in the order of the page: each is followed by those below it.
 * @param {SVGSVGElement} svg
 */
const boxesOf = (svg) => {
  /** @type {Box[]} */
  const boxes = [], open = [];
  for (const node of svg.querySelectorAll("g")) {
    const level = Number(node.getAttribute("aria-level")) - 1;
    open.length = level;
    /** @type {Box} */
    const box = {
      node, rect: only(node, "rect"), text: only(node, "text"), parent: open[level - 1] || null, children: [],
      name: node.dataset.name || "", bytes: Number(node.dataset.bytes), words: node.getAttribute("aria-label") || "",
      isShown: false, isMatch: false,
    };
    if (box.parent) box.parent.children.push(box);
    open.push(box);
    boxes.push(box);
  }
  return boxes;
};
/** @param {HTMLElement} section */
const setUp = (section) => {
  section.dataset.ready = "1";
  const svg = /** @type {SVGSVGElement} */ (section.querySelector("svg")), boxes = boxesOf(svg), top = boxes[0];
  let current = top;
  const search = document.createElement("input");
  search.type = "search"; search.placeholder = "search"; search.setAttribute("aria-label", "search the boxes");
  const back = document.createElement("button");
  back.type = "button"; back.className = "reset"; back.textContent = "Reset zoom";
  const tools = document.createElement("div"), words = document.createElement("p");
  tools.className = "tools"; tools.append(search, back);
  words.className = "subtitle words"; words.setAttribute("aria-live", "polite");
  only(section, "h2").after(tools);
  svg.after(words);

  /**
   * @param {Box} box
   * @param {number} x
   * @param {number} width
   */
  const place = (box, x, width) => {
    box.isShown = width >= NARROWEST;
    if (box.isShown) box.node.removeAttribute("display"); else box.node.setAttribute("display", "none");
    box.rect.setAttribute("x", String(x)); box.rect.setAttribute("width", String(width));
    box.text.setAttribute("x", String(x + 3));
    const letters = Math.floor((width - 6) / LETTER);
    box.text.textContent = letters < 4 ? "" : [...`${box.name}, ${human(box.bytes)}`].slice(0, letters).join("");
    let left = x;
    for (const child of box.children) {
      const share = width * child.bytes / Math.max(box.bytes, 1);
      place(child, left, share);
      left += share;
    }
  };
  /** @param {Box | null} box */
  const describe = (box) => { words.textContent = box ? box.words : found(); };
  /** @param {Box} box */
  const zoom = (box) => {
    for (const one of boxes) { one.isShown = false; one.node.setAttribute("display", "none"); one.node.classList.remove("above"); }
    place(box, 0, WIDTH);
    // The calls that lead there stay above it, as wide as it is.
    for (let above = box.parent; above; above = above.parent) {
      const { children } = above;
      above.children = []; place(above, 0, WIDTH); above.children = children;
      above.node.classList.add("above");
    }
    back.disabled = box === top;
    section.dataset.zoom = box.name;
    describe(box);
  };
  /** @param {Box | null | undefined} box */
  const focus = (box) => {
    if (!box || !box.isShown) return;
    current.node.setAttribute("tabindex", "-1");
    current = box;
    box.node.setAttribute("tabindex", "0");
    box.node.focus();
  };
  /** What a search has found, each byte once: a box that matches contains those below it. */
  const found = () => {
    if (!search.value) return "";
    /**
     * @param {Box} box
     * @returns {number}
     */
    const sum = (box) => (box.isMatch ? box.bytes : box.children.reduce((all, child) => all + sum(child), 0));
    const count = boxes.filter((box) => box.isMatch).length, bytes = sum(top);
    return `${count} ${count === 1 ? "box matches" : "boxes match"}: ${human(bytes)} (${(bytes / Math.max(top.bytes, 1) * 100).toFixed(1)} %)`;
  };
  const look = () => {
    const wanted = search.value.toLowerCase();
    for (const box of boxes) {
      box.isMatch = wanted !== "" && box !== top && box.words.toLowerCase().includes(wanted);
      box.node.classList.toggle("match", box.isMatch);
    }
    section.classList.toggle("searching", wanted !== "");
    describe(null);
  };
  /** @param {Event} event */
  const boxAt = ({ target }) => boxes.find((box) => target instanceof Element && box.node === target.closest("g"));
  /**
   * @param {Box} box
   * @param {number} by
   */
  const sibling = (box, by) => {
    const shown = (box.parent ? box.parent.children : [box]).filter((one) => one.isShown);
    return shown[shown.indexOf(box) + by];
  };
  svg.addEventListener("click", (event) => { const box = boxAt(event); if (box) { zoom(box); focus(box); } });
  svg.addEventListener("pointerover", (event) => { const box = boxAt(event); if (box) describe(box); });
  svg.addEventListener("pointerleave", () => describe(null));
  svg.addEventListener("focusin", (event) => { const box = boxAt(event); if (box) describe(box); });
  svg.addEventListener("keydown", (event) => {
    const box = boxAt(event);
    if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, () => void>} */
    const acts = {
      Enter: () => { zoom(box); focus(box); }, " ": () => { zoom(box); focus(box); },
      Escape: () => { zoom(top); focus(box); }, Home: () => focus(top),
      ArrowUp: () => focus(box.parent), ArrowDown: () => focus(box.children.find((child) => child.isShown)),
      ArrowLeft: () => focus(sibling(box, -1)), ArrowRight: () => focus(sibling(box, 1)),
    };
    const act = Object.hasOwn(acts, event.key) && acts[event.key];
    // The keys of the plots above are for those.
    if (act) { act(); event.preventDefault(); event.stopPropagation(); }
  });
  search.addEventListener("input", look);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { search.value = ""; look(); event.preventDefault(); }
    if (event.key !== "Enter") return;
    // From match to match.
    const matches = boxes.filter((box) => box.isMatch), next = matches.find((box) => boxes.indexOf(box) > boxes.indexOf(current)) || matches[0];
    if (next) { if (!next.isShown) zoom(top); if (!next.isShown) zoom(next); focus(next); }
  });
  back.addEventListener("click", () => { zoom(top); focus(top); });
  zoom(top);
  describe(null);
};
const setUpAll = () => document.querySelectorAll(/** @type {"section"} */ (".held:not([data-ready])")).forEach(setUp);
setUpAll();
// A served page replaces its sections.
const sections = document.getElementById("sections");
if (sections) new MutationObserver(setUpAll).observe(sections, { childList: true });
