/* Finds the samples of a part of a track, and keeps a limited number of unpacked blocks. */
/** @import { Block, Columns, Level, Track } from "./types" */
import { chart, state } from "./chart.js";
import { soon } from "./frame.js";
import { firstAtOrAfter, unpack } from "./packed.js";

const MOST_BLOCKS = 400;
/** @type {Map<Block, number>} */
const unpacked = new Map();
export const forgetBlocks = () => unpacked.clear();
/**
 * The block's columns when they are unpacked; else asks for them and draws again later.
 * @param {Track} track
 * @param {Level} level
 * @param {number} place
 */
export const columnsOf = (track, level, place) => {
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
export const isPending = () => chart.spec.tracks.some((track) => track.levels.some((level) => level.blocks.some((block) => block.wait)));
/** @param {(Columns | null)[]} list */
export const present = (list) => list.filter((columns) => columns !== null);
/**
 * @param {Level} level
 * @param {number} from
 * @param {number} to
 */
const overlapping = (level, from, to) => {
  /** @type {number[]} */
  const found = [];
  level.blocks.forEach((block, place) => { if (block[2] >= from && block[1] <= to) found.push(place); });
  return found;
};
/**
 * The coarsest level with two entries a pixel; every sample when there are fewer.
 * @param {Track} track
 * @param {number} width
 * @returns {Columns[]}
 */
export const levelFor = (track, width) => {
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
        if (columns.every(Boolean) || j === track.levels.length - 1) return present(columns);
      }
    }
  }
  return [];
};
/**
 * The sample nearest to a time, exact; null while it is being unpacked.
 * @param {Track} track
 * @param {number} at
 */
export const nearest = (track, at) => {
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
/**
 * The sample before or after a time, among the blocks of the shown part that are unpacked.
 * @param {Track} track
 * @param {number} at
 * @param {number} direction
 */
export const neighbour = (track, at, direction) => {
  const level = track.levels[0];
  const columns = present(level.blocks.map((block, place) => (block[2] >= state.from && block[1] <= state.to ? columnsOf(track, level, place) : null)));
  /** @type {number | null} */
  let best = null;
  for (const { start } of columns) {
    const i = firstAtOrAfter(start, at);
    const candidate = direction > 0 ? start[start[i] <= at ? i + 1 : i] : start[i - 1];
    if (candidate !== undefined && (best === null || Math.abs(candidate - at) < Math.abs(best - at))) best = candidate;
  }
  return best;
};
