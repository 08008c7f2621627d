// Counters over time: what sums grew by per second, and levels as they were.

import { bytes, count, percent } from "./text.js";
import { perSecond } from "./axis.js";

/** @import {Counter, Side} from "./data.js" */
/** @import {Scale} from "./axis.js" */

/** What counters are called, as `timeline` calls them. @type {Record<string, string>} */
const NAMES = {
  cpu: "CPUs that run", cpu_user: "CPUs in user mode", cpu_system: "CPUs in kernel mode", cpu_idle: "CPUs without work",
  cpu_io_wait: "CPUs that wait for disks", cpu_steal: "CPUs taken by the host", runnable: "threads that run or wait for a CPU", blocked: "threads that wait for a disk",
  memory: "memory", memory_peak: "most memory at one time", memory_total: "memory of the machine", minor_faults: "page faults without disk", major_faults: "page faults with disk",
  switches: "context switches", involuntary_switches: "involuntary switches", disk_read: "bytes from disks", disk_written: "bytes to disks",
  calls_read: "bytes read by system calls", calls_written: "bytes written by system calls",
  cpu_pressure: "a thread waits for a CPU", memory_pressure: "a thread waits for memory", io_pressure: "a thread waits for a disk",
  cpu_pressure_all: "all wait for a CPU", memory_pressure_all: "all wait for memory", io_pressure_all: "all wait for a disk",
};

/** @param {Counter} counter @returns {string} */
export function counterName({ name }) {
  return Object.hasOwn(NAMES, name) ? NAMES[name] : name.replaceAll("_", " ");
}

/** Says a value: of a sum, what it grew by per second. @param {Counter} counter @param {number} value @returns {string} */
export function counterText({ name, unit, is_sum }, value) {
  if (!Number.isFinite(value)) return "unknown";
  if (unit === "ns") return name.includes("pressure") ? `${percent(value / 1e9)} of the time` : `${(value / 1e9).toFixed(2)} CPUs`;
  const text = unit === "bytes" ? bytes(value) : value < 9.95 && !Number.isInteger(value) ? value.toFixed(1) : count(value);
  return is_sum ? `${text}/s` : text;
}

/** Returns true if a counter has the same value in the whole recording. @param {Counter} counter @returns {boolean} */
export function isConstant({ values }) {
  return values.every(([, value]) => value === values[0][1]);
}

/**
 * The values of a counter by pixel: of a sum the mean growth per second, spread evenly between readings; of a level the highest, which
 * holds until the next reading. NaN where nothing is known.
 * @param {Side} side @param {Counter} counter @param {Scale} scale @returns {Float64Array}
 */
export function valuesOf(side, { values, is_sum }, scale) {
  const columns = Math.max(1, Math.round(scale.width)), out = new Float64Array(columns).fill(NaN);
  if (!values.length) return out;
  const last = values[values.length - 1][0];
  let at = 0;
  for (let i = 0; i < columns; i++) {
    const from = Math.max(scale.time(scale.left + i), values[0][0]), to = Math.min(scale.time(scale.left + i + 1), last);
    if (from >= to) continue;
    while (at + 1 < values.length && values[at + 1][0] <= from) at++;
    out[i] = is_sum ? (sumAt(values, at, to) - sumAt(values, at, from)) / (to - from) * perSecond(side) : highest(values, at, to);
  }
  return out;
}

/** A sum between its readings. @param {[number, number][]} values @param {number} at a reading that is not later @param {number} time @returns {number} */
function sumAt(values, at, time) {
  while (at + 1 < values.length && values[at + 1][0] < time) at++;
  if (at + 1 >= values.length) return values[at][1];
  const [[from, low], [to, high]] = [values[at], values[at + 1]];
  return to > from ? low + (high - low) * (time - from) / (to - from) : high;
}

/** @param {[number, number][]} values @param {number} at @param {number} to @returns {number} */
function highest(values, at, to) {
  let most = values[at][1];
  while (at + 1 < values.length && values[at + 1][0] < to) most = Math.max(most, values[++at][1]);
  return most;
}

/** The least and the largest value that is known. @param {Float64Array} values @returns {[number, number]?} */
export function extremes(values) {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return most >= least ? [least, most] : null;
}
