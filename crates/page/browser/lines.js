// The samples of the source lines and instructions of one function.

/** @import {CodePart, Side} from "./data.js" */
/** @import {Chosen} from "./choose.js" */

/** A line of a source file with its samples; `file` is empty if no file is known, `line` is 0 if no line is. @typedef {{file: string, line: number, own: number, total: number}} LineSum */

/**
 * Adds up the lines of a function: where it ran itself, and where it called. A sample counts once for a line.
 * @param {Chosen} chosen @param {number} label @returns {LineSum[]} in the order of files and lines
 */
export function linesOf({ side, weight }, label) {
  const { up, stack_frame, stack_function } = side;
  const own = new Float64Array(up.length);
  for (let row = 0; row < weight.length; row++) own[side.row_stack[row]] += weight[row];
  const total = own.slice();
  for (let at = up.length - 1; at > 0; at--) total[up[at]] += total[at];
  const lineOf = (/** @type {number} */ at) => side.frame_file[stack_frame[at]] * 2 ** 24 + side.frame_line[stack_frame[at]];
  /** @type {Map<number, LineSum>} */
  const sums = new Map();
  for (let at = 1; at < up.length; at++) {
    if (stack_function[at] !== label || total[at] === 0) continue;
    const key = lineOf(at), file = side.frame_file[stack_frame[at]];
    let sum = sums.get(key);
    if (!sum) sums.set(key, sum = { file: file ? side.text[file - 1] : "", line: side.frame_line[stack_frame[at]], own: 0, total: 0 });
    sum.own += own[at];
    if (!isBelow(side, at, label, (above) => lineOf(above) === key)) sum.total += total[at];
  }
  return [...sums.values()].sort((a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line));
}

/** Returns true if a caller of a stack is of the same function, and `is` holds for it. @param {Side} side @param {number} stack @param {number} label @param {(above: number) => boolean} is */
function isBelow(side, stack, label, is) {
  for (let above = side.up[stack]; above !== 0; above = side.up[above]) if (side.stack_function[above] === label && is(above)) return true;
  return false;
}

/** Adds up the samples that hit each instruction of a part; null if that is not known. @param {Chosen} chosen @param {CodePart} part @returns {Float64Array?} */
export function hitsOf({ side, rows, unit, from, to }, part) {
  if (!part.hits) return null;
  const own = new Float64Array(part.at.length), { sample, at } = part.hits;
  for (let i = 0; i < sample.length; i++) {
    const hit = sample[i], time = side.sample_time[hit];
    if (!rows[side.sample_row[hit]] || time < from || time >= to) continue;
    own[at[i]] += unit === "samples" ? side.sample_number[hit] : side.sample_weight[hit];
  }
  return own;
}
