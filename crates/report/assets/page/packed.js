/* Reads the packed levels of detail of a page (detail_levels.rs): deflated blocks of columns. */
/** @import { Block, Columns, Level, Track } from "./types" */

/**
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
export const decoded = (text) => {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const plain = atob(text), bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) bytes[i] = plain.charCodeAt(i);
  return bytes;
};
/** @param {Uint8Array<ArrayBuffer>} bytes */
export const inflate = async (bytes) => {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};
export class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  number() {
    let value = 0, factor = 1, byte;
    do { byte = this.bytes[this.at++]; value += (byte & 127) * factor; factor *= 128; } while (byte > 127);
    return value;
  }
  /** @param {number} count */
  values(count) {
    const out = new Float64Array(count);
    for (let i = 0, last = 0; i < count; i++) {
      const packed = this.number();
      if (packed === 0) { out[i] = NaN; continue; }
      const zigzag = packed - 1;
      last += zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
      out[i] = last;
    }
    return out;
  }
}
// The script runs before the details behind it are read.
const whole = new Promise((done) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", done); else done(null);
});
/**
 * @param {Track} track
 * @param {Level} level
 * @param {Block} block
 * @returns {Promise<Columns>}
 */
export const unpack = async (track, level, block) => {
  const [count, , , offset, size] = block;
  if (level.store === 1) await whole;
  const reader = new Reader(await inflate(level.bytes().subarray(offset, offset + size)));
  const start = new Float64Array(count);
  for (let i = 0, last = 0; i < count; i++) start[i] = last += reader.number();
  let end = start;
  if (level.bucket > 1) {
    end = new Float64Array(count);
    for (let i = 0; i < count; i++) end[i] = start[i] + reader.number();
  }
  const low = [], high = [];
  for (let s = 0; s < track.series.length; s++) {
    low.push(reader.values(count));
    high.push(level.bucket > 1 ? reader.values(count) : low[s]);
  }
  return { start, end, low, high, count };
};
/**
 * @param {Float64Array} times
 * @param {number} at
 */
export const firstAtOrAfter = (times, at) => {
  let low = 0, high = times.length;
  while (low < high) { const middle = (low + high) >> 1; if (times[middle] < at) low = middle + 1; else high = middle; }
  return low;
};
