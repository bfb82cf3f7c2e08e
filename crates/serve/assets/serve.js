"use strict";
/* Keeps the pages of the server up to date. Markup comes from the server, which escapes every
   text of a recording; the policy of the page allows no script but ours. */
(() => {
  const { page, url, query, waiting } = document.body.dataset;
  const byId = (id) => document.getElementById(id);
  const live = byId("live");

  /** Listens to a stream while the page is visible: a hidden page costs the server nothing. */
  const follow = (address, changed) => {
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
  /** Does one thing at a time: what is asked for meanwhile is done once, afterwards. What takes long
      is followed by a pause of three times as long, so that a large run does not occupy the server. */
  const oneAtATime = (work) => {
    let busy = false, again = false;
    const run = async () => {
      if (busy) { again = true; return; }
      busy = true;
      const begun = performance.now();
      try { await work(); } catch (error) { live.textContent = String(error.message || error); }
      const took = performance.now() - begun;
      if (took > 300) await new Promise((done) => setTimeout(done, Math.min(took * 3, 30000)));
      busy = false;
      if (again) { again = false; run(); }
    };
    return run;
  };
  const note = (text) => { const box = byId("note"); box.hidden = !text; box.textContent = text || ""; };
  /** Replaces the elements of a box whose markup differs, so that what a reader does in the others
      (zoom, search, focus) stays; open details stay open. */
  const put = (id, markup) => {
    const box = byId(id);
    if (box.markup === markup) return;
    box.markup = markup;
    const open = [...box.querySelectorAll("details")].map((one) => one.open);
    const fresh = document.createElement("template");
    fresh.innerHTML = markup;
    const parts = [...fresh.content.children];
    parts.forEach((one, i) => {
      one.markup = one.outerHTML;
      const old = box.children[i];
      if (!old) box.append(one);
      else if (old.markup !== one.markup) old.replaceWith(one);
    });
    while (box.children.length > parts.length) box.lastElementChild.remove();
    box.querySelectorAll("details").forEach((one, i) => { one.open = Boolean(open[i]); });
  };
  /** The part of the drawing that a link names: #from=12.5&to=30, in seconds. */
  const wanted = () => {
    const hash = new URLSearchParams(location.hash.slice(1));
    const [from, to] = [parseFloat(hash.get("from")), parseFloat(hash.get("to"))];
    return to > from ? [from, to] : undefined;
  };
  let later = 0;
  const remember = (view) => {
    clearTimeout(later);
    later = setTimeout(() => {
      const short = (value) => String(Number(value.toPrecision(9)));
      history.replaceState(null, "", view ? `#from=${short(view[0])}&to=${short(view[1])}` : location.pathname + location.search);
    }, 200);
  };
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
    const form = byId("filter");
    const address = () => {
      const wish = new URLSearchParams(new FormData(form));
      const here = new URLSearchParams(location.search).get("page");
      if (here) wish.set("page", here);
      return wish;
    };
    const load = oneAtATime(async () => {
      const wish = address();
      wish.set("part", "rows");
      const answer = await fetch(`/?${wish}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const marked = [...document.querySelectorAll("input[name=run]:checked")].map((box) => box.value);
      const focused = document.activeElement, row = focused && focused.closest ? focused.closest("tr[data-run]") : null;
      const key = row && [row.dataset.run, focused.tagName];
      put("rows", await answer.text());
      for (const box of document.querySelectorAll("input[name=run]")) box.checked = marked.includes(box.value);
      const again = key && document.querySelector(`tr[data-run="${key[0]}"] ${key[1]}`);
      if (again) again.focus({ preventScroll: true });
      document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
    });
    let typed = 0;
    form.addEventListener("input", () => {
      clearTimeout(typed);
      typed = setTimeout(() => {
        const wish = new URLSearchParams(new FormData(form));
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
