// Cells of a heat map: columns of whole seconds, rows of fiftieths of a column.

import { Bins } from "./activity.js";
import { beganAt, endedAt } from "./data.js";
import { endOf, perSecond } from "./axis.js";

/** @import {Side} from "./data.js" */
/** @import {Chosen} from "./choose.js" */

/** How many rows a column has. */
export const CELLS = 50;

/**
 * @typedef {object} Cells
 * @property {number} seconds of a column
 * @property {number} columns
 * @property {number} length of a cell
 * @property {Float64Array} sum column by column, from the bottom to the top
 * @property {number} most the largest sum
 */

/**
 * Adds samples up by cells; a wait counts while it lasts.
 * @param {Side} side @param {Pick<Chosen, "rows" | "unit">} chosen @param {number} fit how many columns fit @returns {Cells}
 */
export function cellsOf(side, { rows, unit }, fit) {
  const all = endOf(side) / perSecond(side), seconds = Math.max(1, Math.ceil(all / Math.max(fit, 1)));
  const columns = Math.max(1, Math.ceil(all / seconds)), length = seconds * perSecond(side) / CELLS;
  const bins = new Bins(columns * CELLS);
  const { sample_time, sample_row, row_event } = side, amounts = unit === "samples" ? side.sample_number : side.sample_weight;
  for (let i = 0; i < sample_time.length; i++) {
    const row = sample_row[i];
    if (!rows[row]) continue;
    if (side.events[row_event[row]]?.is_wait) bins.span(beganAt(side, i) / length, endedAt(side, i) / length, amounts[i]);
    else bins.point(sample_time[i] / length, amounts[i]);
  }
  const sum = bins.finish();
  let most = 0;
  for (const it of sum) most = Math.max(most, it);
  return { seconds, columns, length, sum, most };
}

/**
 * A color of a scale from little to much. The scale is even to the eye: lightness changes in equal steps (OKLCH).
 * @param {number} part 0 to 1 @param {boolean} dark @returns {[number, number, number]} red, green, blue, 0 to 255
 */
export function shadeOf(part, dark) {
  const lightness = dark ? 0.28 + 0.66 * part : 0.93 - 0.6 * part, chroma = 0.05 + 0.13 * Math.sin(Math.PI * (0.15 + 0.6 * part));
  const hue = (dark ? 25 + 70 * part : 85 - 65 * part) * Math.PI / 180;
  return fromOklab(lightness, chroma * Math.cos(hue), chroma * Math.sin(hue));
}

/** Björn Ottosson's transformation. @param {number} light @param {number} a @param {number} b @returns {[number, number, number]} */
function fromOklab(light, a, b) {
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const gamma = (/** @type {number} */ it) => it <= 0.0031308 ? 12.92 * it : 1.055 * it ** (1 / 2.4) - 0.055;
  return /** @type {[number, number, number]} */ (linear.map((it) => Math.round(255 * gamma(Math.min(1, Math.max(0, it))))));
}
