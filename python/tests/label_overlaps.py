"""Which labels of a page overlap: texts of the document, and texts that scripts draw on canvases."""

from __future__ import annotations

from typing import Any

from browser import Tab

# Records each text on a canvas with its rectangle, as far as it is not clipped, until the canvas is
# cleared.
RECORD = """
(() => {
  const proto = CanvasRenderingContext2D.prototype, original = {};
  const states = new WeakMap();
  const state = (g) => {
    if (!states.has(g)) states.set(g, { path: null, clip: null, stack: [] });
    return states.get(g);
  };
  const wrap = (name, before) => {
    original[name] = proto[name];
    proto[name] = function (...all) { before(this, all); return original[name].apply(this, all); };
  };
  wrap("clearRect", (g) => { g.canvas.labels = []; });
  wrap("beginPath", (g) => { state(g).path = null; });
  wrap("rect", (g, [x, y, width, height]) => { state(g).path = [x, y, x + width, y + height]; });
  wrap("clip", (g) => { state(g).clip = state(g).path; });
  wrap("save", (g) => { state(g).stack.push(state(g).clip); });
  wrap("restore", (g) => { state(g).clip = state(g).stack.pop() ?? null; });
  wrap("fillText", (g, [text, x, y]) => {
    const m = g.measureText(text), clip = state(g).clip, t = g.getTransform();
    // Only texts along the x axis are compared.
    if (!g.canvas.labels || Math.abs(t.b) > 1e-6) return;
    let [left, top, right, bottom] = [x - m.actualBoundingBoxLeft, y - m.actualBoundingBoxAscent, x + m.actualBoundingBoxRight, y + m.actualBoundingBoxDescent];
    if (clip) [left, top, right, bottom] = [Math.max(left, clip[0]), Math.max(top, clip[1]), Math.min(right, clip[2]), Math.min(bottom, clip[3])];
    if (right > left && bottom > top) g.canvas.labels.push([text, left, top, right, bottom]);
  });
})()
"""

OVERLAPS = """
(() => {
  const found = [], labels = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim() || !node.parentElement.checkVisibility()) continue;
    if (node.parentElement.closest("script, noscript, title, style, .marks, .held")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      // Lines of text are as high as the line, letters are not.
      const edge = box.height * 0.18;
      labels.push([node.data.trim(), box.left, box.top + edge, box.right, box.bottom - edge]);
    }
  }
  for (const canvas of document.querySelectorAll("canvas")) {
    const at = canvas.getBoundingClientRect();
    if (!at.width) continue;
    for (const [text, left, top, right, bottom] of canvas.labels || []) {
      labels.push([text, left + at.left, top + at.top, right + at.left, bottom + at.top]);
      if (left < -1 || right > at.width + 1) found.push(`'${text}' leaves its plot`);
    }
  }
  labels.forEach((one, index) => labels.slice(index + 1).forEach((other) => {
    const width = Math.min(one[3], other[3]) - Math.max(one[1], other[1]);
    const height = Math.min(one[4], other[4]) - Math.max(one[2], other[2]);
    if (width > 1 && height > 1) found.push(`'${one[0]}' and '${other[0]}'`);
  }));
  return found;
})()
"""


def overlaps(tab: Tab, width: int) -> list[str]:
    """The pairs of labels that overlap in a window of this width."""
    size: dict[str, Any] = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    tab.command("Emulation.setDeviceMetricsOverride", **size)
    tab.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    frames = "new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(d)))"
    tab.value(f"dispatchEvent(new Event('resize')), {frames}")
    tab.wait_for("document.querySelector('#app').dataset.idle === '1'")
    found: list[str] = tab.value(OVERLAPS)
    return found
