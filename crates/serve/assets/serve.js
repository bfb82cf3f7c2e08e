"use strict";
/* Keeps the pages of the server up to date. Markup comes from the server, which escapes every
   text of a recording; the policy of the page allows no script but ours. */
(() => {
  const { page, url, query, waiting } = document.body.dataset;
  /** @param {string} id */
  const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
  const live = byId("live");

  /**
   * Listens to a stream while the page is visible: a hidden page costs the server nothing.
   * @param {string} address
   * @param {(state: string) => void} changed
   */
  const follow = (address, changed) => {
    /** @type {EventSource | null} */
    let source = null;
    const open = () => {
      if (source || document.hidden) return;
      source = new EventSource(address);
      source.onopen = () => { live.textContent = "live"; live.classList.add("on"); };
      source.onerror = () => { live.textContent = "connection lost, trying again"; live.classList.remove("on"); };
      source.onmessage = (event) => changed(event.data);
    };
    const close = () => { if (source) source.close(); source = null; live.textContent = ""; };
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
    open();
    return close;
  };
  /**
   * Does one thing at a time: what is asked for meanwhile is done once, afterwards. What takes long
   * is followed by a pause of three times as long, so that a large run does not occupy the server.
   * @param {() => Promise<void>} work
   */
  const oneAtATime = (work) => {
    let busy = false, again = false;
    const run = async () => {
      if (busy) { again = true; return; }
      busy = true;
      const begun = performance.now();
      try { await work(); } catch (error) { live.textContent = error instanceof Error && error.message || String(error); }
      const took = performance.now() - begun;
      if (took > 300) await new Promise((done) => setTimeout(done, Math.min(took * 3, 30000)));
      busy = false;
      if (again) { again = false; run(); }
    };
    return run;
  };
  /** @param {string | null | undefined} text */
  const note = (text) => { const box = byId("note"); box.hidden = !text; box.textContent = text || ""; };
  /**
   * The markup from which an element was made.
   * @type {WeakMap<Element, string>}
   */
  const madeFrom = new WeakMap();
  /**
   * Replaces the elements of a box whose markup differs, so that what a reader does in the others
   * (zoom, search, focus) stays; open details stay open.
   * @param {string} id
   * @param {string} markup
   */
  const put = (id, markup) => {
    const box = byId(id);
    if (madeFrom.get(box) === markup) return;
    madeFrom.set(box, markup);
    const open = [...box.querySelectorAll("details")].map((one) => one.open);
    const fresh = document.createElement("template");
    fresh.innerHTML = markup;
    const parts = [...fresh.content.children];
    parts.forEach((one, i) => {
      madeFrom.set(one, one.outerHTML);
      const old = box.children[i];
      if (!old) box.append(one);
      else if (madeFrom.get(old) !== madeFrom.get(one)) old.replaceWith(one);
    });
    while (box.children.length > parts.length) box.lastElementChild?.remove();
    box.querySelectorAll("details").forEach((one, i) => { one.open = Boolean(open[i]); });
  };
  /**
   * The part of the drawing that a link names: #from=12.5&to=30, in seconds.
   * @returns {[number, number] | undefined}
   */
  const wanted = () => {
    const hash = new URLSearchParams(location.hash.slice(1));
    const [from, to] = [parseFloat(hash.get("from") || ""), parseFloat(hash.get("to") || "")];
    return to > from ? [from, to] : undefined;
  };
  let later = 0;
  /** @param {[number, number] | null} view */
  const remember = (view) => {
    clearTimeout(later);
    later = setTimeout(() => {
      /** @param {number} value */
      const short = (value) => String(Number(value.toPrecision(9)));
      history.replaceState(null, "", view ? `#from=${short(view[0])}&to=${short(view[1])}` : location.pathname + location.search);
    }, 200);
  };
  /** @param {string} address */
  const drawing = (address) => {
    let first = true;
    return oneAtATime(async () => {
      const answer = await fetch(address, { cache: "no-store" });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const { error, drawing, parts } = await answer.json();
      note(error || parts.note);
      if (error) { byId("app").replaceChildren(); return; }
      if (parts.head !== undefined) put("head", parts.head);
      put("sections", parts.sections);
      if (drawing) await stormlogPlot.show(drawing, first ? wanted() : undefined);
      else byId("app").textContent = "no samples were recorded";
      if (first) stormlogPlot.onview = remember;
      first = false;
      document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
      document.body.dataset.running = String(parts.running);
    });
  };

  if (page === "run") {
    const load = drawing(`${url}/data`);
    load();
    follow(`${url}/events`, load);
  } else if (page === "compare") {
    drawing(`${url}/data?${query}`)();
  } else if (page === "issues") {
    if (waiting) setTimeout(() => location.reload(), 1500);
  } else if (page === "list") {
    const form = /** @type {HTMLFormElement} */ (byId("filter"));
    /** What the form says, as the parameters of an address; it has no files. */
    const said = () => new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, String(value)]));
    const address = () => {
      const wish = said();
      const here = new URLSearchParams(location.search).get("page");
      if (here) wish.set("page", here);
      return wish;
    };
    /** The boxes that choose the runs to compare. */
    const boxes = () => [...document.querySelectorAll(/** @type {"input"} */ ("input[name=run]"))];
    const load = oneAtATime(async () => {
      const wish = address();
      wish.set("part", "rows");
      const answer = await fetch(`/?${wish}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const marked = boxes().filter((box) => box.checked).map((box) => box.value);
      const focused = document.activeElement, row = focused?.closest(/** @type {"tr"} */ ("tr[data-run]"));
      const place = focused && row && `tr[data-run="${row.dataset.run}"] ${focused.tagName}`;
      put("rows", await answer.text());
      for (const box of boxes()) box.checked = marked.includes(box.value);
      const again = place ? document.querySelector(place) : null;
      if (again instanceof HTMLElement) again.focus({ preventScroll: true });
      document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
    });
    let typed = 0;
    form.addEventListener("input", () => {
      clearTimeout(typed);
      typed = setTimeout(() => {
        const wish = said();
        for (const [name, value] of [...wish]) if (!value) wish.delete(name);
        history.replaceState(null, "", wish.size ? `/?${wish}` : "/");
        load();
      }, 150);
    });
    form.addEventListener("submit", (event) => { event.preventDefault(); load(); });
    // The first event counts too: verdicts may have come between the page and its stream.
    follow("/events", load);
  }
})();
