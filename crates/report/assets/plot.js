"use strict";
/* Draws the panels of a page from packed levels of detail. Uses no network and builds the
   page from text nodes only, so that nothing in an artifact can become markup.
   A file holds its data in the page; a served page passes data to `stormlogPlot.show`, again
   whenever the recording has grown. */
(() => {
  const { unitOf, human, exact } = stormlogBytes;
  const { decoded, inflate, Reader, unpack, firstAtOrAfter } = stormlogPacked;
  const app = document.getElementById("app");
  const root = document.documentElement;
  let spec = null, LENGTH = 1, RIGHT = 14;
  const LEFT = 66, BOTTOM = 26, LANE = 20, PHASE = 15;
  const HEAT = ["440f5c", "46327e", "365c8d", "277f8e", "1fa187", "4ac16d", "a0da39", "e4e119", "fde725"]
    .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const state = { from: 0, to: 1, cursor: null, mark: -1, hidden: new Set(), drag: null };
  const panels = [];
  let colours = {};

  // ---- words ----
  const el = (name, attributes, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    for (const child of children) node.append(child);
    return node;
  };
  const seconds = (ns) => {
    if (spec.axis === "step") return "step " + exact.format(Math.round(ns / 1e9));
    const s = ns / 1e9, range = (state.to - state.from) / 1e9;
    if (LENGTH < 300e9) return s.toFixed(range < 0.02 ? 6 : range < 2 ? 4 : 3) + " s";
    const whole = Math.floor(Math.abs(s)), part = (Math.abs(s) - whole).toFixed(3).slice(1);
    const two = (n) => String(n).padStart(2, "0");
    return `${s < 0 ? "-" : ""}${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}${range < 120 ? part : ""}`;
  };
  const wall = (ns) => {
    if (spec.axis) return "";
    const date = new Date(spec.zero_ms + (ns + spec.zero_ns_rest) / 1e6);
    return isNaN(date) ? "" : date.toISOString().replace("T", " ").replace("Z", " UTC");
  };

  // ---- packed data ----
  const stores = [null, null];
  const store = (place) => {
    if (!stores[place]) stores[place] = decoded(document.getElementById(place === 0 ? "overview" : "detail").textContent);
    return stores[place];
  };
  // The block's columns when they are unpacked; else asks for them and draws again later.
  const MOST_BLOCKS = 400;
  const unpacked = new Map();
  const columnsOf = (track, level, place) => {
    const block = level.blocks[place];
    if (block.columns) { unpacked.delete(block); unpacked.set(block, 1); return block.columns; }
    if (!block.wait) {
      block.wait = unpack(track, level, block).then((columns) => {
        block.columns = columns; block.wait = null; unpacked.set(block, 1);
        // The coarsest level stays; of the others the longest unused go.
        for (const old of unpacked.keys()) {
          if (unpacked.size <= MOST_BLOCKS) break;
          unpacked.delete(old);
          if (!old.keep) old.columns = null;
        }
        soon();
      });
    }
    return null;
  };
  const overlapping = (level, from, to) => {
    const found = [];
    level.blocks.forEach((block, place) => { if (block[2] >= from && block[1] <= to) found.push(place); });
    return found;
  };
  const levelFor = (track, width) => {
    // The coarsest level with two entries a pixel; every sample when there are fewer.
    for (let i = track.levels.length - 1; i >= 0; i--) {
      const level = track.levels[i];
      let count = 0;
      for (const place of overlapping(level, state.from, state.to)) {
        const [entries, from, to] = level.blocks[place];
        const part = (Math.min(to, state.to) - Math.max(from, state.from)) / Math.max(to - from, 1);
        count += entries * Math.min(Math.max(part, 0), 1);
      }
      if (count >= width * 2 || i === 0) {
        // While the fine level is unpacked, draw the next coarser one that is there.
        for (let j = i; j < track.levels.length; j++) {
          const finer = track.levels[j], places = overlapping(finer, state.from, state.to);
          const columns = places.map((at) => columnsOf(track, finer, at));
          if (columns.every(Boolean) || j === track.levels.length - 1) return columns.filter(Boolean);
        }
      }
    }
    return [];
  };
  /** The sample nearest to a time, exact; null while it is being unpacked. */
  const nearest = (track, at) => {
    const level = track.levels[0], blocks = level.blocks;
    let best = -1, distance = Infinity;
    blocks.forEach((block, place) => {
      const away = at < block[1] ? block[1] - at : at > block[2] ? at - block[2] : 0;
      if (away < distance) { best = place; distance = away; }
    });
    if (best < 0) return null;
    const columns = columnsOf(track, level, best);
    if (!columns) return null;
    let i = Math.min(firstAtOrAfter(columns.start, at), columns.count - 1);
    if (i > 0 && at - columns.start[i - 1] < columns.start[i] - at) i--;
    let index = i;
    for (let b = 0; b < best; b++) index += blocks[b][0];
    return { time: columns.start[i], values: columns.low.map((column) => column[i]), index };
  };

  // ---- drawing ----
  const nice = (step) => {
    const power = 10 ** Math.floor(Math.log10(step));
    return [1, 2, 5, 10].find((factor) => factor * power >= step * 0.999999) * power;
  };
  const timeStep = (raw) => {
    if (LENGTH < 300e9 || raw < 1 || spec.axis === "step") return nice(raw);
    return [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].find((s) => s >= raw) || 86400 * nice(raw / 86400);
  };
  const readColours = () => {
    const style = getComputedStyle(root);
    colours = new Proxy({}, { get: (_, name) => style.getPropertyValue("--" + name).trim() });
  };
  const fitCanvas = (canvas) => {
    const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
    const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, box.width, box.height);
    context.font = "12px Roboto, system-ui, sans-serif";
    return [context, box.width, box.height];
  };
  const timeAxis = (g, plot, x) => {
    const range = (state.to - state.from) / 1e9, step = timeStep(range / Math.max(2, Math.round(plot.width / 110)));
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    g.fillStyle = colours.muted; g.strokeStyle = colours.axis; g.textAlign = "center"; g.lineWidth = 1;
    g.beginPath(); g.moveTo(plot.x, plot.bottom + 0.5); g.lineTo(plot.right, plot.bottom + 0.5);
    for (let i = Math.ceil(state.from / 1e9 / step); i * step * 1e9 <= state.to; i++) {
      const at = x(i * step * 1e9);
      g.moveTo(at, plot.bottom); g.lineTo(at, plot.bottom + 5);
      if (spec.axis === "step" && digits > 0) continue;
      const text = spec.axis === "step" ? exact.format(i * step) : LENGTH < 300e9 || step < 1 ? (i * step).toFixed(digits) + " s" : seconds(i * step * 1e9).replace(/\.\d+$/, "");
      g.fillText(text, at, plot.bottom + 18);
    }
    g.stroke();
  };
  const byteAxis = (g, plot, low, high) => {
    const [unit, size] = unitOf(Math.max(Math.abs(low), Math.abs(high), 1));
    const step = nice(Math.max((high - low) / size / Math.max(2, Math.round(plot.height / 52)), unit === "B" ? 1 : 1e-6));
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    g.strokeStyle = colours.grid; g.fillStyle = colours.muted; g.textAlign = "right"; g.lineWidth = 1;
    g.beginPath();
    for (let i = Math.ceil(low / size / step); i * step * size <= high * 1.0001; i++) {
      const y = Math.round(plot.bottom - (i * step * size - low) / (high - low) * plot.height) + 0.5;
      g.moveTo(plot.x, y); g.lineTo(plot.right, y);
      g.fillText((i * step).toFixed(digits) + (i * step * size + step * size > high ? " " + unit : ""), plot.x - 6, y + 4);
    }
    g.stroke();
  };
  const ceiling = (peak) => {
    const padded = Math.max(peak, 1) * 1.05, [, size] = unitOf(padded), step = nice(padded / size / 5);
    return Math.ceil(padded / size / step) * step * size;
  };
  /** Least and greatest of a series in each pixel column, and where sampling paused. */
  const traceLine = (g, columnsList, s, gap, plot, x, y) => {
    g.beginPath();
    let column = -1, low = 0, high = 0, last = NaN, lastEnd = -Infinity, open = false, lastY = 0;
    const flush = () => {
      if (column < 0) return;
      const yl = y(low), yh = y(high);
      const first = Math.abs(yl - lastY) < Math.abs(yh - lastY) ? yl : yh, second = first === yl ? yh : yl;
      if (open) g.lineTo(column, first); else { g.moveTo(column, first); g.lineTo(column + 0.01, first); open = true; }
      if (second !== first) g.lineTo(column, second);
      lastY = second;
    };
    for (const columns of columnsList) {
      const { start, end, count } = columns, lows = columns.low[s], highs = columns.high[s];
      let i = Math.max(0, firstAtOrAfter(end, state.from) - 1);
      for (; i < count; i++) {
        if (isNaN(lows[i])) { if (column >= 0) { flush(); column = -1; } open = false; lastEnd = end[i]; continue; }
        const raw = x(start[i]), at = columns.low[s] === columns.high[s] && count < 4 * plot.width ? raw : Math.floor(raw) + 0.5;
        if (start[i] - lastEnd > gap && at !== column) { flush(); column = -1; open = false; }
        if (at === column) { if (lows[i] < low) low = lows[i]; if (highs[i] > high) high = highs[i]; }
        else { flush(); column = at; low = lows[i]; high = highs[i]; }
        last = lows[i]; lastEnd = end[i];
        if (start[i] > state.to) break;
      }
    }
    flush();
    g.stroke();
    return last;
  };
  const shadeBetween = (g, columnsList, upper, lower, gap, x, y, base) => {
    g.beginPath();
    for (const columns of columnsList) {
      const { start, end, count } = columns;
      for (let i = Math.max(0, firstAtOrAfter(end, state.from) - 1); i < count && start[i] <= state.to; i++) {
        const top = columns.high[upper][i], bottom = lower < 0 ? 0 : columns.high[lower][i];
        if (isNaN(top) || isNaN(bottom) || top <= bottom) continue;
        const next = i + 1 < count && start[i + 1] - end[i] <= gap ? start[i + 1] : end[i];
        const left = x(start[i]), right = Math.max(x(next), left + 0.7);
        g.rect(left, y(top), right - left, (lower < 0 ? base : y(bottom)) - y(top));
      }
    }
    g.fill();
  };
  /** Fills from a sum of series to another: `edges` gives both for an entry of the columns. */
  const shadeBand = (g, columnsList, edges, gap, x, y) => {
    g.beginPath();
    for (const columns of columnsList) {
      const { start, end, count } = columns;
      for (let i = Math.max(0, firstAtOrAfter(end, state.from) - 1); i < count && start[i] <= state.to; i++) {
        const [bottom, top] = edges(columns.high, i);
        if (!(top > bottom)) continue;
        const next = i + 1 < count && start[i + 1] - end[i] <= gap ? start[i + 1] : end[i];
        const left = x(start[i]), right = Math.max(x(next), left + 0.7);
        g.rect(left, y(top), right - left, y(bottom) - y(top));
      }
    }
    g.fill();
  };
  /** A request that failed: a hatched bar from the level in use upwards, inside the plot. */
  const drawRequests = (g, plot, x, y, requests) => {
    const WIDE = 18, limit = Math.min(...requests.map((request) => request.limit ?? Infinity));
    if (isFinite(limit) && y(limit) > plot.y + 0.5) {
      g.strokeStyle = g.fillStyle = colours.capacity; g.lineWidth = 1.5; g.setLineDash([5, 4]); g.textAlign = "left";
      g.beginPath(); g.moveTo(plot.x, y(limit)); g.lineTo(plot.right, y(limit)); g.stroke(); g.setLineDash([]);
      g.fillText(`limit of this process ${human(limit)}`, plot.x + 6, y(limit) - 4);
    }
    for (const request of requests) {
      if (request.t < state.from || request.t > state.to + (state.to - state.from) * 0.02) continue;
      const right = Math.min(Math.max(x(request.t), plot.x + WIDE), plot.right);
      const bottom = Math.max(y(request.in_use), plot.y + 4), top = Math.min(y(request.in_use + request.requested), bottom - 4);
      g.save(); g.strokeStyle = g.fillStyle = colours.critical; g.lineWidth = 1.4;
      g.strokeRect(right - WIDE, top, WIDE, bottom - top);
      g.beginPath(); g.rect(right - WIDE, top, WIDE, bottom - top); g.clip();
      g.globalAlpha = 0.7; g.lineWidth = 1; g.beginPath();
      for (let at = 6; at < WIDE + bottom - top; at += 6) { g.moveTo(right - WIDE, top + at); g.lineTo(right - WIDE + at, top); }
      g.stroke(); g.restore();
      const width = g.measureText(request.label).width, left = right - WIDE - 8 - width;
      g.fillStyle = colours.critical; g.textAlign = "left";
      g.fillText(request.label, left >= plot.x ? left : Math.min(right + 8, plot.right - width), Math.min(Math.max((top + bottom) / 2 + 4, plot.y + 12), plot.bottom - 6));
    }
  };
  const BANDS = ["hidden", "others"];
  const keyOf = (panel, track, s) => `${panel.place}:${track.id}:${s}`;
  const isShown = (panel, track, s) => !state.hidden.has(keyOf(panel, track, s));

  const drawBackdrop = (g, plot, x, panel) => {
    g.fillStyle = colours.panel; g.fillRect(plot.x, plot.y, plot.width, plot.height);
    const names = [];
    for (const phase of panel.phases) {
      if (!names.includes(phase.name)) names.push(phase.name);
      if (phase.to < state.from || phase.from > state.to || phase.depth > 2) continue;
      const left = Math.max(x(phase.from), plot.x), right = Math.min(x(phase.to), plot.right);
      const top = plot.y - panel.phaseHeight + phase.depth * PHASE;
      g.fillStyle = colours["phase" + names.indexOf(phase.name) % 6];
      g.fillRect(left, top, Math.max(right - left, 0.5), PHASE - 1);
      if (phase.depth === 0) { g.globalAlpha = 0.25; g.fillRect(left, plot.y, right - left, plot.height); g.globalAlpha = 1; }
      if (right - left > 30) {
        g.save(); g.beginPath(); g.rect(left, top, right - left - 4, PHASE); g.clip();
        g.fillStyle = colours.text; g.textAlign = "left"; g.fillText(phase.name, left + 4, top + 11); g.restore();
      }
    }
  };
  const drawMarks = (g, plot, x, panel) => {
    let free = -Infinity;
    panel.marks.forEach((mark) => {
      const chosen = spec.marks[state.mark] === mark;
      if (mark.end !== null && mark.end >= state.from && mark.t <= state.to) {
        g.globalAlpha = 0.1; g.fillStyle = colours[mark.severity];
        const left = Math.max(x(mark.t), plot.x);
        g.fillRect(left, plot.y, Math.max(Math.min(x(mark.end), plot.right) - left, 1), plot.height); g.globalAlpha = 1;
      }
      g.strokeStyle = g.fillStyle = colours[mark.severity];
      let lastTick = -Infinity;
      for (const t of mark.times.slice(1)) {
        const at = x(t);
        if (t < state.from || t > state.to || at - lastTick < 1.5) continue;
        lastTick = at; g.fillRect(at - 0.6, plot.y, 1.2, 7);
      }
      if (mark.t < state.from || mark.t > state.to * 1.02) return;
      const at = Math.min(x(mark.t), plot.right), y = 10;
      g.lineWidth = chosen ? 2 : 1; g.setLineDash([5, 4]);
      g.beginPath(); g.moveTo(at, y); g.lineTo(at, plot.bottom); g.stroke(); g.setLineDash([]);
      g.beginPath();
      if (mark.severity === "critical") { g.moveTo(at, y - 6); g.lineTo(at + 5, y); g.lineTo(at, y + 6); g.lineTo(at - 5, y); }
      else if (mark.severity === "warning") { g.moveTo(at, y - 5); g.lineTo(at + 5, y + 4); g.lineTo(at - 5, y + 4); }
      else g.arc(at, y, 4, 0, 7);
      g.fill();
      const text = label(mark), width = Math.min(g.measureText(text).width, 300);
      const flip = at + 10 + width > plot.right, left = flip ? at - 10 - width : at + 9;
      if (left > free && left >= plot.x - 8) {
        g.save(); g.beginPath(); g.rect(left, 0, width, LANE); g.clip();
        g.textAlign = "left"; g.fillText(text, left, y + 4); g.restore();
        free = flip ? at + 8 : left + width + 10;
      }
    });
  };
  const ofRank = (mark) => (spec.several && mark.rank !== null ? `rank ${mark.rank}: ` : "");
  const label = (mark) => ofRank(mark) + mark.label;
  const sentence = (mark) => (/^Rank \d/.test(mark.detail) ? "" : ofRank(mark)) + mark.detail;

  const drawLines = (panel) => {
    const [g, width, height] = fitCanvas(panel.canvas);
    const top = LANE + panel.phaseHeight + 2;
    const plot = { x: LEFT, y: top, width: width - LEFT - RIGHT, height: height - top - BOTTOM };
    plot.right = plot.x + plot.width; plot.bottom = plot.y + plot.height;
    panel.plot = plot;
    const x = (t) => plot.x + (t - state.from) / (state.to - state.from) * plot.width;
    drawBackdrop(g, plot, x, panel);
    let peak = 0, least = 0, capacity = 0;
    const views = panel.tracks.map((track) => [track, levelFor(track, plot.width)]);
    for (const [track, list] of views) {
      track.series.forEach((series, s) => {
        if (!isShown(panel, track, s) || (BANDS.includes(series.colour) && track.series.length > 1)) return;
        for (const columns of list) {
          const begin = firstAtOrAfter(columns.end, state.from);
          for (let i = begin; i < columns.count && columns.start[i] <= state.to; i++) {
            const high = columns.high[s][i];
            if (series.colour === "capacity") { if (high > capacity) capacity = high; continue; }
            if (high > peak) peak = high;
            if (columns.low[s][i] < least) least = columns.low[s][i];
          }
        }
      });
    }
    // A request far beyond what was in use is cut at the top.
    const highest = Math.max(peak, capacity) * 1.5;
    for (const request of panel.requests) {
      if (request.t >= state.from && request.t <= state.to * 1.02) peak = Math.max(peak, Math.min(request.in_use + request.requested, highest));
    }
    const onlyCapacity = peak === 0 && capacity > 0;
    const high = ceiling(capacity > 0 && (capacity <= 1.5 * peak || onlyCapacity) ? Math.max(capacity, peak) : peak);
    const low = least < 0 ? -ceiling(-least) : 0;
    const y = (bytes) => plot.bottom - (Math.min(bytes, high) - low) / (high - low) * plot.height;
    byteAxis(g, plot, low, high);
    g.save(); g.beginPath(); g.rect(plot.x, plot.y - 1, plot.width, plot.height + 2); g.clip();
    for (const [track, list] of views) {
      // Pauses in sampling.
      g.fillStyle = colours.muted; g.globalAlpha = 0.12;
      let lastEnd = NaN;
      for (const columns of list) for (let i = 0; i < columns.count; i++) {
        if (panel.tracks.length === 1 && columns.start[i] - lastEnd > track.gap) g.fillRect(x(lastEnd), plot.y, x(columns.start[i]) - x(lastEnd), plot.height);
        lastEnd = columns.end[i];
      }
      g.globalAlpha = 1;
      const at = (name) => track.series.findIndex((series, s) => series.colour === name && isShown(panel, track, s));
      if (track.series[0].colour === "envelope") {
        g.fillStyle = colours.envelope;
        g.globalAlpha = 0.16; if (at("envelope") >= 0) shadeBetween(g, list, 4, 0, LENGTH, x, y, y(0));
        g.globalAlpha = 0.24; if (at("envelope") >= 0) shadeBetween(g, list, 3, 1, LENGTH, x, y, y(0));
        g.globalAlpha = 1; g.strokeStyle = colours.text; g.lineWidth = 1.8;
        traceLine(g, list, 2, track.gap, plot, x, y);
        continue;
      }
      const hidden = at("hidden"), others = at("others"), cached = at("reserved");
      if (panel.band) {
        // What the second run needs more, and what it needs less.
        g.globalAlpha = 0.3;
        for (const [colour, upper, lower] of [["critical", 1, 0], ["used", 0, 1]]) {
          g.fillStyle = colours[colour];
          shadeBand(g, list, (high, i) => [high[lower][i], high[upper][i]], track.gap, x, y);
        }
      } else if (track.series.length === 1) {
        if (hidden >= 0 || panel.host && panel.tracks.length === 1) {
          g.globalAlpha = 0.28; g.fillStyle = colours[track.series[0].colour];
          shadeBetween(g, list, 0, -1, track.gap, x, y, y(0));
        }
      } else {
        const place = (name) => track.series.findIndex((series) => series.colour === name);
        const used = place("used"), reserved = place("reserved"), allocated = place("allocated");
        const band = (name, alpha, edges) => { g.globalAlpha = alpha; g.fillStyle = colours[name]; shadeBand(g, list, edges, track.gap, x, y); };
        if (at("allocated") >= 0) band("allocated", 0.22, (high, i) => [0, high[allocated][i]]);
        if (cached >= 0) band("reserved", 0.26, (high, i) => [allocated < 0 ? high[reserved][i] : high[allocated][i], high[reserved][i]]);
        if (hidden >= 0 && reserved >= 0) band("hidden", 0.3, (high, i) => [high[reserved][i], high[reserved][i] + high[hidden][i]]);
        if (others >= 0 && used >= 0) band("others", 0.18, (high, i) => [high[used][i] - high[others][i], high[used][i]]);
      }
      g.globalAlpha = 1;
      for (let s = track.series.length - 1; s >= 0; s--) {
        const series = track.series[s];
        if (!isShown(panel, track, s) || (BANDS.includes(series.colour) && track.series.length > 1)) continue;
        g.strokeStyle = colours[series.colour]; g.lineWidth = 1.6; g.lineJoin = "round";
        if (series.colour === "capacity") g.setLineDash([5, 4]);
        if (series.colour !== "capacity" || capacity <= high) traceLine(g, list, s, track.gap, plot, x, y);
        g.setLineDash([]);
      }
    }
    g.restore();
    if (capacity > high) {
      g.fillStyle = colours.capacity; g.textAlign = "right";
      g.fillText(`capacity ${human(capacity)} is above this axis`, plot.right - 6, plot.y + 14);
    }
    drawRequests(g, plot, x, y, panel.requests);
    drawMarks(g, plot, x, panel);
    timeAxis(g, plot, x);
    drawCursor(g, plot, x);
  };
  const drawCursor = (g, plot, x) => {
    if (state.drag && state.drag.kind === "zoom") {
      const [a, b] = [state.drag.start, state.drag.end].sort((p, q) => p - q);
      g.globalAlpha = 0.15; g.fillStyle = colours.focus; g.fillRect(x(a), plot.y, x(b) - x(a), plot.height); g.globalAlpha = 1;
    }
    if (state.cursor !== null && state.cursor >= state.from && state.cursor <= state.to) {
      g.strokeStyle = colours.muted; g.lineWidth = 1; g.beginPath();
      g.moveTo(Math.round(x(state.cursor)) + 0.5, plot.y); g.lineTo(Math.round(x(state.cursor)) + 0.5, plot.bottom); g.stroke();
    }
  };
  const heatColour = (share) => {
    const place = Math.min(Math.max(share, 0), 1) * (HEAT.length - 1), below = Math.min(Math.floor(place), HEAT.length - 2);
    return HEAT[below].map((c, i) => Math.round(c + (HEAT[below + 1][i] - c) * (place - below)));
  };
  const drawHeat = (panel) => {
    const [g, width, height] = fitCanvas(panel.canvas);
    const plot = { x: LEFT, y: 6, width: width - LEFT - RIGHT, height: height - 6 - BOTTOM };
    plot.right = plot.x + plot.width; plot.bottom = plot.y + plot.height;
    panel.plot = plot;
    const x = (t) => plot.x + (t - state.from) / (state.to - state.from) * plot.width;
    g.fillStyle = colours.grid; g.fillRect(plot.x, plot.y, plot.width, plot.height);
    if (panel.image) {
      const n = panel.columns, first = state.from / LENGTH * n, count = (state.to - state.from) / LENGTH * n;
      g.imageSmoothingEnabled = false;
      g.drawImage(panel.image, first, 0, Math.max(count, 0.01), panel.rows.length, plot.x, plot.y, plot.width, plot.height);
    }
    g.fillStyle = colours.muted; g.textAlign = "right";
    const row = plot.height / panel.rows.length;
    let free = -Infinity;
    panel.rows.forEach((name, i) => {
      const y = plot.y + (i + 0.5) * row + 4;
      if (y < free) return;
      g.fillText(name, plot.x - 6, y); free = y + 13;
    });
    for (let i = 0; i < 48; i++) {
      g.fillStyle = `rgb(${heatColour((i + 0.5) / 48)})`;
      g.fillRect(plot.right + 14, plot.bottom - (i + 1) / 48 * plot.height, 12, plot.height / 48 + 0.5);
    }
    g.fillStyle = colours.muted; g.textAlign = "left";
    g.fillText(human(panel.high), plot.right + 30, plot.y + 10); g.fillText(human(panel.low), plot.right + 30, plot.bottom);
    timeAxis(g, plot, x);
    drawCursor(g, plot, x);
  };
  const makeHeat = async (panel) => {
    const reader = new Reader(await inflate(panel.bytes().subarray(panel.offset, panel.offset + panel.size)));
    panel.cells = panel.rows.map(() => reader.values(panel.columns));
    const canvas = document.createElement("canvas");
    canvas.width = panel.columns; canvas.height = panel.rows.length;
    const g = canvas.getContext("2d"), image = g.createImageData(canvas.width, canvas.height);
    panel.cells.forEach((row, r) => row.forEach((value, c) => {
      if (isNaN(value)) return;
      image.data.set([...heatColour((value - panel.low) / (panel.high - panel.low)), 255], (r * panel.columns + c) * 4);
    }));
    g.putImageData(image, 0, 0);
    panel.image = canvas;
  };
  const drawOverview = () => {
    const panel = panels.find((p) => p.kind === "lines"), canvas = overview;
    if (!canvas) return;
    const [g, width, height] = fitCanvas(canvas);
    const plot = { x: LEFT, y: 2, width: width - LEFT - RIGHT, height: height - 4 };
    plot.right = plot.x + plot.width; plot.bottom = plot.y + plot.height;
    canvas.plot = plot;
    g.fillStyle = colours.panel; g.fillRect(plot.x, plot.y, plot.width, plot.height);
    const x = (t) => plot.x + t / LENGTH * plot.width;
    if (panel) {
      const kept = [state.from, state.to];
      [state.from, state.to] = [0, LENGTH];
      let peak = 1;
      const views = panel.tracks.map((track) => {
        const level = track.levels[track.levels.length - 1];
        return [track, level.blocks.map((_, at) => columnsOf(track, level, at)).filter(Boolean)];
      });
      const wanted = (track) => {
        const places = ["used", "reserved", "allocated"].map((name) => track.series.findIndex((series) => series.colour === name));
        return places.find((place) => place >= 0) ?? -1;
      };
      for (const [track, list] of views) {
        const s = Math.max(wanted(track), track.series[0].colour === "envelope" ? 2 : 0);
        for (const columns of list) for (const value of columns.high[s]) if (value > peak) peak = value;
      }
      for (const [track, list] of views) {
        const s = Math.max(wanted(track), track.series[0].colour === "envelope" ? 2 : 0);
        g.strokeStyle = colours[track.series[s].colour === "envelope" ? "text" : track.series[s].colour]; g.lineWidth = 1;
        traceLine(g, list, s, track.gap, plot, x, (bytes) => plot.bottom - bytes / peak * plot.height * 0.94);
      }
      [state.from, state.to] = kept;
    }
    const left = x(state.from), right = x(state.to);
    g.fillStyle = colours.background; g.globalAlpha = 0.65;
    g.fillRect(plot.x, plot.y, left - plot.x, plot.height); g.fillRect(right, plot.y, plot.right - right, plot.height);
    g.globalAlpha = 1; g.strokeStyle = colours.focus; g.lineWidth = 1.5; g.strokeRect(left, plot.y, Math.max(right - left, 2), plot.height);
    g.fillStyle = colours.focus;
    for (const edge of [left, right]) g.fillRect(edge - 2.5, plot.y + plot.height / 2 - 9, 5, 18);
    for (const mark of spec.marks) { g.fillStyle = colours[mark.severity]; g.fillRect(x(mark.t) - 0.7, plot.y, 1.4, 6); }
  };
  let waiting = false;
  const drawAll = () => {
    waiting = false;
    if (!spec) return;
    for (const panel of panels) (panel.kind === "heat" ? drawHeat : drawLines)(panel);
    drawOverview();
    app.dataset.from = String(state.from); app.dataset.to = String(state.to);
    app.dataset.idle = [...document.querySelectorAll("canvas")].length && !pending() ? "1" : "0";
    if (state.tip) showTip();
  };
  const pending = () => spec.tracks.some((track) => track.levels.some((level) => level.blocks.some((block) => block.wait)));
  const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(drawAll); } };

  // ---- moving ----
  const setView = (from, to) => {
    // No closer than a few samples can be, no wider than everything.
    const smallest = Math.max(LENGTH * 1e-7, 1000);
    let width = Math.min(Math.max(to - from, smallest), LENGTH);
    from = Math.min(Math.max((from + to) / 2 - width / 2, 0), LENGTH - width);
    state.from = from; state.to = from + width;
    if (plot.onview) plot.onview(state.from <= 0 && state.to >= LENGTH ? null : [state.from / 1e9, state.to / 1e9]);
    soon();
  };
  const zoom = (factor, around) => {
    const at = around === undefined ? (state.from + state.to) / 2 : around;
    setView(at - (at - state.from) * factor, at + (state.to - at) * factor);
  };
  const pan = (part) => { const by = (state.to - state.from) * part; setView(state.from + by, state.to + by); };
  const reset = () => { if (!spec) return; state.mark = -1; setView(0, LENGTH); };
  const jump = (place) => {
    if (!spec.marks.length) return;
    state.mark = (place + spec.marks.length) % spec.marks.length;
    const mark = spec.marks[state.mark], end = mark.end === null ? mark.t : mark.end;
    const around = Math.max((end - mark.t) * 2, Math.min(LENGTH / 12, state.to - state.from));
    setView((mark.t + end) / 2 - around / 2, (mark.t + end) / 2 + around / 2);
    state.cursor = mark.t;
    document.querySelectorAll(".marks button").forEach((button, i) => button.setAttribute("aria-current", String(i === state.mark)));
    readout(mark.t);
  };
  const darkSystem = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.dataset.theme === "dark" || (root.dataset.theme === "system" && darkSystem.matches);
  const setTheme = (theme) => { root.dataset.theme = theme; readColours(); soon(); };

  // ---- reading ----
  const rowsAt = (panel, at) => {
    const rows = [];
    if (panel.kind === "heat") {
      const column = Math.min(Math.floor(at / LENGTH * panel.columns), panel.columns - 1);
      (panel.cells || []).forEach((cells, r) => rows.push({ name: "rank " + panel.rows[r], value: cells[column], row: r }));
      return { rows, time: at };
    }
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
  const tip = el("div", { id: "tip", role: "status", hidden: "" });
  const showTip = () => {
    const { panel, clientX, clientY, y } = state.tip;
    let { rows, time, note } = rowsAt(panel, state.cursor);
    if (panel.kind === "heat") {
      const row = Math.floor((y - panel.plot.y) / panel.plot.height * panel.rows.length);
      rows = rows.filter((entry) => Math.abs(entry.row - row) <= 3);
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
    tip.replaceChildren(el("div", { class: "when" }, `${seconds(time)}   ${wall(time)}`), table);
    if (note) tip.append(el("div", { class: "said" }, note));
    const reach = (state.to - state.from) / Math.max(panel.plot.width, 1) * 6;
    for (const mark of panel.marks || []) {
      if (mark.times.some((t) => Math.abs(t - state.cursor) < reach)) tip.append(el("div", { class: "said" }, `${mark.severity}: ${sentence(mark)}`));
    }
    for (const phase of panel.phases || []) {
      if (phase.from <= state.cursor && state.cursor <= phase.to) tip.append(el("div", { class: "said" }, "phase: " + phase.path));
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = (clientX + 18 + box.width > innerWidth ? clientX - 18 - box.width : clientX + 18) + "px";
    tip.style.top = Math.max(4, Math.min(clientY + 14, innerHeight - box.height - 4)) + "px";
  };
  const readout = (at) => {
    const panel = panels[0];
    if (!panel) return;
    const { rows, time } = rowsAt(panel, at);
    const text = rows.slice(0, 8).map((row) => `${row.name} ${isNaN(row.value) ? "unknown" : human(row.value) + " (" + exact.format(row.value) + " B)"}`);
    status.textContent = `${seconds(time)}: ${text.join(", ")}`;
  };
  /** Moves the cursor to the next sample of the first track. */
  const step = (direction) => {
    const track = panels.flatMap((panel) => panel.tracks || [])[0];
    if (!track) return;
    const columns = track.levels[0].blocks.map((block, at) => (block[2] >= state.from && block[1] <= state.to ? columnsOf(track, track.levels[0], at) : null)).filter(Boolean);
    const at = state.cursor === null ? (state.from + state.to) / 2 : state.cursor;
    let best = null;
    for (const { start } of columns) {
      const i = firstAtOrAfter(start, at);
      const candidate = direction > 0 ? start[start[i] <= at ? i + 1 : i] : start[i - 1];
      if (candidate !== undefined && (best === null || Math.abs(candidate - at) < Math.abs(best - at))) best = candidate;
    }
    if (best !== null) { state.cursor = best; readout(best); soon(); }
  };

  // ---- hands ----
  const timeAt = (plot, offset) => state.from + Math.min(Math.max((offset - plot.x) / plot.width, 0), 1) * (state.to - state.from);
  const listen = (panel) => {
    const canvas = panel.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button > 1) return;
      canvas.setPointerCapture(event.pointerId);
      const at = timeAt(panel.plot, event.offsetX);
      const panning = event.shiftKey || event.button === 1 || event.pointerType === "touch";
      state.drag = { kind: panning ? "pan" : "zoom", start: at, end: at, x: event.offsetX, from: state.from, to: state.to };
      if (event.button === 1) event.preventDefault();
    });
    canvas.addEventListener("pointermove", (event) => {
      const drag = state.drag;
      if (drag && drag.kind === "pan") {
        const by = (drag.x - event.offsetX) / panel.plot.width * (drag.to - drag.from);
        setView(drag.from + by, drag.to + by);
        return;
      }
      state.cursor = timeAt(panel.plot, event.offsetX);
      if (drag) drag.end = state.cursor;
      state.tip = { panel, clientX: event.clientX, clientY: event.clientY, y: event.offsetY };
      soon();
    });
    canvas.addEventListener("pointerup", (event) => {
      const drag = state.drag;
      state.drag = null;
      if (drag && drag.kind === "zoom" && Math.abs(event.offsetX - drag.x) > 4) {
        setView(Math.min(drag.start, drag.end), Math.max(drag.start, drag.end));
      } else if (drag && panel.marks) {
        const reach = (state.to - state.from) / panel.plot.width * 7;
        const found = spec.marks.findIndex((mark) => panel.marks.includes(mark) && Math.abs(mark.t - drag.start) < reach);
        if (found >= 0 && event.offsetY < LANE + 4) jump(found); else readout(drag.start);
      }
      soon();
    });
    canvas.addEventListener("pointerleave", () => { if (!state.drag) { state.cursor = null; state.tip = null; tip.hidden = true; soon(); } });
    canvas.addEventListener("dblclick", reset);
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
      else zoom(Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 240) * 0.0022), timeAt(panel.plot, event.offsetX));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft") event.shiftKey ? step(-1) : pan(-0.15);
      else if (event.key === "ArrowRight") event.shiftKey ? step(1) : pan(0.15);
      else return;
      event.preventDefault();
    });
  };
  const listenOverview = (canvas) => {
    const at = (event) => Math.min(Math.max((event.offsetX - canvas.plot.x) / canvas.plot.width, 0), 1) * LENGTH;
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      const t = at(event), reach = LENGTH / canvas.plot.width * 7;
      if (Math.abs(t - state.from) < reach) drag = { edge: "from" };
      else if (Math.abs(t - state.to) < reach) drag = { edge: "to" };
      else if (t > state.from && t < state.to && state.to - state.from < LENGTH * 0.999) drag = { by: t - state.from };
      else drag = { fresh: t };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const t = at(event);
      if (drag.edge === "from") setView(Math.min(t, state.to), state.to);
      else if (drag.edge === "to") setView(state.from, Math.max(t, state.from));
      else if (drag.by !== undefined) { const width = state.to - state.from; setView(t - drag.by, t - drag.by + width); }
      else setView(Math.min(t, drag.fresh), Math.max(t, drag.fresh));
    });
    canvas.addEventListener("pointerup", () => { drag = null; });
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft") pan(-0.15); else if (event.key === "ArrowRight") pan(0.15); else return;
      event.preventDefault();
    });
  };

  // ---- the page ----
  const status = el("div", { id: "readout", "aria-live": "polite" });
  let overview = null;
  const build = () => {
    panels.length = 0; overview = null;
    app.replaceChildren();
    if (spec.verdict) app.append(el("p", { class: "verdict " + spec.verdict[0] }, spec.verdict[1]));
    for (const line of spec.cause || []) app.append(el("p", { class: "cause" }, line));
    if (spec.advice) app.append(el("p", { class: "advice" }, "What to do: " + spec.advice));
    for (const line of spec.notes || []) app.append(el("p", { class: "advice" }, line));
    const hasHost = spec.panels.some((panel) => panel.host);
    spec.panels.forEach((panel, place) => {
      panel.place = place;
      panel.canvas = el("canvas", { class: "plot" + (place > 0 ? " short" : ""), tabindex: "0", role: "img", "aria-label": `${panel.title}: plot over time, arrow keys pan, plus and minus zoom` });
      const legend = el("div", { class: "legend" });
      panel.phases = []; panel.marks = []; panel.requests = []; panel.phaseHeight = 0;
      if (panel.kind === "lines") {
        panel.tracks = panel.tracks.map((id) => spec.tracks[id]);
        const ranks = panel.tracks.map((track) => track.rank);
        const ours = (rank) => rank === null || ranks.includes(rank) || panel.tracks.some((track) => track.rank === null);
        // What is about host memory stands there, where it has a panel.
        panel.marks = spec.marks.filter((mark) => ours(mark.rank) && (!hasHost || mark.host === Boolean(panel.host)));
        if (panel.tracks.length === 1 && panel.tracks[0].series.length > 1) panel.requests = spec.requests.filter((request) => request.rank === ranks[0]);
        if (panel.tracks.length === 1) panel.phases = spec.phases.filter((phase) => phase.rank === ranks[0]);
        const deepest = panel.phases.reduce((most, phase) => Math.max(most, phase.depth + 1), 0);
        panel.phaseHeight = Math.min(deepest, 3) * PHASE + (deepest ? 3 : 0);
        for (const track of panel.tracks) track.series.forEach((series, s) => {
          if (series.colour === "envelope" && s !== 2) return;
          const swatch = el("span", { class: "swatch" });
          swatch.dataset.colour = series.colour;
          const peak = series.peak === null || series.colour === "capacity" ? "" : ` (peak ${human(series.peak)})`;
          const name = series.colour === "envelope" ? `${track.label}: median, middle 80 %, all` : series.name + peak;
          const button = el("button", { type: "button", "aria-pressed": String(isShown(panel, track, s)), title: "show or hide" }, swatch, name);
          button.addEventListener("click", () => {
            const places = series.colour === "envelope" ? [0, 1, 2, 3, 4] : [s];
            for (const at of places) { const key = keyOf(panel, track, at); if (!state.hidden.delete(key)) state.hidden.add(key); }
            button.setAttribute("aria-pressed", String(isShown(panel, track, s)));
            soon();
          });
          legend.append(button);
        });
      }
      panels.push(panel);
      app.append(el("section", {}, el("h2", {}, panel.title), legend, el("div", { class: "stage" }, panel.canvas)));
      listen(panel);
      if (place === 0) {
        overview = el("canvas", { class: "overview", tabindex: "0", role: "img", "aria-label": "whole recording; drag to select a part" });
        app.append(overview, status);
        listenOverview(overview);
      }
    });
    const lists = el("div", { class: "columns" });
    const marks = el("ol", { class: "marks" });
    spec.marks.forEach((mark, place) => {
      const sign = el("span", { class: "sign" });
      sign.dataset.colour = mark.severity;
      const button = el("button", { type: "button" }, sign, el("span", { class: "time" }, seconds(mark.t)), el("span", { class: "said" }, sentence(mark)));
      button.addEventListener("click", () => jump(place));
      marks.append(el("li", {}, button));
    });
    const none = el("p", { class: "subtitle" }, "no alerts, no errors, no findings");
    if (!spec.axis) lists.append(el("section", {}, el("h2", {}, "events"), spec.marks.length ? marks : none));
    const facts = el("table", { class: "facts" });
    for (const [name, value] of spec.facts) facts.append(el("tr", {}, el("td", {}, name), el("td", {}, value)));
    if (spec.facts.length) lists.append(el("section", {}, el("h2", {}, "facts"), facts));
    for (const { title, lines, unknown } of spec.ledgers || []) {
      const table = el("table", { class: "ledger" });
      for (const [size, name, share] of lines) {
        const part = share === null ? "" : el("meter", { min: "0", max: "1", value: String(share), title: `${(share * 100).toFixed(1)} %` });
        table.append(el("tr", {}, el("td", {}, size), el("td", {}, name), el("td", {}, part)));
      }
      lists.append(el("section", {}, el("h2", {}, title), table, unknown ? el("p", { class: "subtitle" }, unknown) : ""));
    }
    app.append(lists);
    const keys = [["drag", "zoom in"], ["wheel", "zoom"], ["shift+drag", "pan"], ["double click, 0", "show all"], ["← →", "pan"], ["+ −", "zoom"], ["shift+← →", "sample by sample"], ["n p", "next, previous event"], ["t", "light or dark"]];
    const help = el("details", {}, el("summary", {}, "shortcuts"));
    for (const [key, what] of keys) help.append(el("div", {}, el("kbd", {}, key), " " + what));
    app.append(help, tip);
  };
  const buildTools = () => {
    const tool = (text, title, action) => { const button = el("button", { type: "button", title }, text); button.addEventListener("click", action); document.getElementById("tools").append(button); return button; };
    tool("−", "zoom out", () => zoom(1.6)).id = "zoom-out";
    tool("+", "zoom in", () => zoom(0.6)).id = "zoom-in";
    tool("Reset", "show everything", reset).id = "reset";
    tool("Theme", "light or dark", () => setTheme(isDark() ? "light" : "dark")).id = "theme";
  };
  const paintSwatches = () => document.querySelectorAll("[data-colour]").forEach((node) => {
    const name = node.dataset.colour;
    node.style.background = colours[name === "envelope" ? "text" : name];
  });
  document.addEventListener("keydown", (event) => {
    if (!spec || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const act = { "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6), "0": reset, Home: reset, n: () => jump(state.mark + 1), p: () => jump(state.mark - 1), t: () => setTheme(isDark() ? "light" : "dark") }[event.key];
    if (act) { act(); event.preventDefault(); }
  });
  let before = null;
  addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; readColours(); paintSwatches(); drawAll(); });
  addEventListener("afterprint", () => { setTheme(before); });
  darkSystem.addEventListener("change", () => { readColours(); paintSwatches(); soon(); });
  addEventListener("resize", soon);
  new MutationObserver(paintSwatches).observe(root, { attributes: true, attributeFilter: ["data-theme"] });

  // ---- data ----
  /** Where the keyboard is and how far lists are scrolled, before they are built again. */
  const places = () => {
    const all = () => [...app.querySelectorAll("button, canvas, summary")];
    const focused = all().indexOf(document.activeElement), list = app.querySelector(".marks"), open = app.querySelector("details");
    const scrolled = list ? list.scrollTop : 0, isOpen = open && open.open;
    return () => {
      if (focused >= 0 && all()[focused]) all()[focused].focus({ preventScroll: true });
      if (app.querySelector(".marks")) app.querySelector(".marks").scrollTop = scrolled;
      if (isOpen && app.querySelector("details")) app.querySelector("details").open = true;
    };
  };
  /** Draws data: at first all of it or the wanted part, later the same part. A view that reached the end follows it. */
  const show = async (fresh, bytes, wanted) => {
    for (const panel of fresh.panels) if (panel.kind === "heat") panel.bytes = () => bytes(0);
    const waits = [];
    fresh.tracks.forEach((track, id) => {
      track.id = id;
      for (const level of track.levels) level.bytes = () => bytes(level.store);
      const level = track.levels[track.levels.length - 1];
      level.blocks.forEach((block) => {
        block.keep = true;
        waits.push(unpack(track, level, block).then((columns) => { block.columns = columns; }));
      });
    });
    waits.push(...fresh.panels.filter((panel) => panel.kind === "heat").map(makeHeat));
    await Promise.all(waits);
    const old = spec && { length: LENGTH, zero: spec.zero_ms * 1e6 + spec.zero_ns_rest };
    const restore = places();
    spec = fresh;
    LENGTH = Math.max(spec.length, 1);
    // Room for the scale of colours, on every panel, so that all share one time axis.
    RIGHT = spec.panels.some((panel) => panel.kind === "heat") ? 84 : 14;
    unpacked.clear();
    let view = wanted || [0, LENGTH];
    if (old) {
      const moved = old.zero - (spec.zero_ms * 1e6 + spec.zero_ns_rest);
      view = [state.from + moved, state.to + moved];
      if (state.to >= old.length) view = state.from <= 0 ? [0, LENGTH] : [LENGTH - (state.to - state.from), LENGTH];
      if (state.cursor !== null) state.cursor += moved;
    }
    [state.from, state.to] = view;
    build();
    restore();
    if (state.tip) state.tip = null, tip.hidden = true;
    readColours();
    paintSwatches();
    setView(view[0], view[1]);
    drawAll();
    app.dataset.ready = "1";
    app.dataset.shown = String(Number(app.dataset.shown || 0) + 1);
    performance.mark("stormlog-drawn");
  };
  const plot = {
    onview: null,
    /** Shows `{spec, overview, detail}` of a server, the stores in base64; `seconds` is the wanted part. */
    show: (data, seconds) => {
      const packed = [data.overview, data.detail], plain = [null, null];
      const bytes = (place) => (plain[place] ||= decoded(packed[place]));
      return show(data.spec, bytes, seconds && seconds.map((one) => one * 1e9));
    },
  };
  buildTools();
  const inPage = document.getElementById("spec");
  if (inPage) show(JSON.parse(inPage.textContent), store);
  else window.stormlogPlot = plot;
})();
