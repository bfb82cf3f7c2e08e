/* Bytes as text, as every other output writes them. */

/** @type {[string, number][]} */
const UNITS = [["PiB", 2 ** 50], ["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024], ["B", 1]];
/** @param {number} bytes */
export const unitOf = (bytes) => UNITS.find(([, size]) => Math.abs(bytes) >= size) || UNITS[5];
/** @param {number} bytes */
export const human = (bytes) => {
  // Three significant digits, as human_bytes in Rust: from 999.5 on the next unit is used.
  const [unit, size] = unitOf(Math.abs(bytes) < 1024 ? bytes : bytes * (1024 / 999.5));
  const value = bytes / size, wide = Math.abs(value);
  return value.toFixed(size === 1 || wide >= 99.95 ? 0 : wide >= 9.995 ? 1 : wide >= 0.9995 ? 2 : 3) + " " + unit;
};
export const exact = new Intl.NumberFormat("en-US");
