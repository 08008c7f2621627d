// What was done when: samples added up by columns of time.

import { firstFrom } from "./choose.js";
import { perSecond } from "./axis.js";
import { count, duration } from "./text.js";

/** @import {Side} from "./data.js" */

/** Adds up amounts by columns, in one pass however long what has an amount lasts. */
export class Bins {
  /** @param {number} columns */
  constructor(columns) {
    this.sum = new Float64Array(columns);
    /** What begins in a column to be added to it and all that follow. */
    this.slope = new Float64Array(columns + 1);
  }

  /** @param {number} x in columns @param {number} amount */
  point(x, amount) {
    if (x >= 0 && x < this.sum.length) this.sum[Math.floor(x)] += amount;
  }

  /** Spreads an amount evenly; what lies beside the columns is not counted. @param {number} begin in columns @param {number} end @param {number} amount */
  span(begin, end, amount) {
    if (end - begin < 1e-6) return this.point(begin, amount);
    const rate = amount / (end - begin), left = Math.max(begin, 0), right = Math.min(end, this.sum.length);
    if (right <= left) return;
    const first = Math.floor(left), last = Math.floor(right);
    if (first === last) {
      this.sum[first] += rate * (right - left);
      return;
    }
    this.sum[first] += rate * (first + 1 - left);
    if (last < this.sum.length) this.sum[last] += rate * (right - last);
    this.slope[first + 1] += rate;
    this.slope[last] -= rate;
  }

  /** @returns {Float64Array} */
  finish() {
    let rate = 0, most = 0;
    for (let i = 0; i < this.sum.length; i++) {
      rate += this.slope[i];
      most = Math.max(most, Math.abs(rate));
      // What is left of sums that cancel each other is no activity.
      if (Math.abs(rate) < most * 1e-9) rate = 0;
      this.sum[i] += rate;
    }
    return this.sum;
  }
}

/**
 * Returns how long a sample usually takes until the next of its event in a thread, by event; 0 if events come as they like.
 * @param {Side} side @returns {Float64Array}
 */
export function intervalsOf(side) {
  const { row_event, sample_row, sample_time } = side;
  /** @type {number[][]} */
  const gaps = side.events.map(() => []);
  for (let thread = 0; thread < side.threads.length; thread++) {
    const last = side.events.map(() => -1);
    for (let i = side.thread_begin[thread]; i < side.thread_begin[thread + 1]; i++) {
      const event = row_event[sample_row[i]], time = sample_time[i];
      if (!gaps[event] || gaps[event].length >= 100_000) continue;
      if (last[event] >= 0 && time > last[event]) gaps[event].push(time - last[event]);
      last[event] = time;
    }
  }
  return Float64Array.from(side.events, ({ is_of_cpu }, event) => {
    const sorted = Float64Array.from(gaps[event]).sort();
    return is_of_cpu && sorted.length ? sorted[sorted.length >> 1] : 0;
  });
}

/** How long before their times samples began to count. */
export class Reach {
  /**
   * A wait lasted, a sample of CPU time stands for so much of it, one of cycles for the usual distance; anything else happened at one
   * moment.
   * @param {Side} side
   */
  constructor(side) {
    this.side = side;
    this.intervals = intervalsOf(side);
    this.how = side.events.map((event) => event.is_wait ? 0 : event.is_of_cpu && event.unit === "ns" ? 1 : 2);
    /** The longest of each thread, with the time that it took to run again. */
    this.longest = new Float64Array(side.threads.length);
    const { sample_late, thread_begin } = side;
    for (let thread = 0; thread < side.threads.length; thread++) {
      let longest = 0;
      for (let i = thread_begin[thread]; i < thread_begin[thread + 1]; i++) longest = Math.max(longest, this.of(i) + sample_late[i]);
      this.longest[thread] = longest;
    }
  }

  /** @param {number} sample @returns {number} */
  of(sample) {
    const { side } = this, event = side.row_event[side.sample_row[sample]];
    if (this.how[event] === 0) return side.sample_lasted[sample];
    return this.how[event] === 1 ? side.sample_weight[sample] / side.unit_ns : this.intervals[event] ?? 0;
  }
}

/**
 * Which samples are added up, and how.
 * @typedef {object} Spread
 * @property {Uint8Array} rows 1 for rows that count
 * @property {ArrayLike<number>} [threads] all, if it is not there
 * @property {number} from
 * @property {number} to
 * @property {number} columns
 * @property {(sample: number) => number} amount
 * @property {Reach} reach
 */

/** Adds up samples by columns of time. @param {Side} side @param {Spread} spread @returns {Float64Array} */
export function spread(side, { rows, threads, from, to, columns, amount, reach }) {
  const bins = new Bins(columns), scale = columns / (to - from), { sample_time, sample_row, sample_late, thread_begin } = side;
  const list = threads ?? side.threads.keys();
  for (const thread of /** @type {Iterable<number>} */ (list)) {
    const last = thread_begin[thread + 1];
    // What ends behind the stretch may have begun in it.
    const behind = to + reach.longest[thread];
    for (let i = firstFrom(side, thread, from); i < last && sample_time[i] < behind; i++) {
      if (!rows[sample_row[i]]) continue;
      const end = sample_time[i] - sample_late[i], begin = end - reach.of(i);
      if (begin < to) bins.span((begin - from) * scale, (end - from) * scale, amount(i));
    }
  }
  return bins.finish();
}

/** The largest of numbers; 0 if there is none. @param {ArrayLike<number>} values @returns {number} */
export function largest(values) {
  let most = 0;
  for (let i = 0; i < values.length; i++) if (values[i] > most) most = values[i];
  return most;
}

/**
 * What is drawn as one area: an event, or all waits.
 * @typedef {{event: number, name: string, unit: string, rows: Uint8Array}} Kind
 */

/** Splits rows by event, waits (event -1) last. @param {Side} side @param {Uint8Array} rows @param {string} metric as in the state @returns {Kind[]} */
export function kindsOf(side, rows, metric) {
  const kindOf = (/** @type {number} */ of) => {
    const event = side.events[of], place = event?.is_wait ? -1 : of;
    const known = place < 0 ? kinds.find((it) => it?.event === place) : undefined;
    const unit = place < 0 ? "ns" : metric === "samples" ? "samples" : event?.unit || "samples";
    return known ?? { event: place, name: place < 0 ? "waits" : event?.name ?? "?", unit, rows: new Uint8Array(rows.length) };
  };
  /** The kind of each event. @type {Kind[]} */
  const kinds = [], { row_event } = side;
  for (let row = 0; row < rows.length; row++) {
    if (!rows[row]) continue;
    const kind = kinds[row_event[row]] ??= kindOf(row_event[row]);
    kind.rows[row] = 1;
  }
  return [...new Set(kinds.filter(Boolean))].sort((a, b) => (a.event >>> 0) - (b.event >>> 0));
}

/** Returns what a sample adds to an area: waits add how long they lasted. @param {Side} side @param {Kind} kind @returns {(sample: number) => number} */
export function amountOf(side, { event, unit }) {
  if (event < 0) return (sample) => side.sample_lasted[sample] * side.unit_ns;
  return unit === "samples" ? (sample) => side.sample_number[sample] : (sample) => side.sample_weight[sample];
}

/** Says the rate of an area: CPU time in CPUs, waits in threads. @param {Side} side @param {Kind} kind @param {number} sum of a column @param {number} length of the column @returns {string} */
export function rateText(side, { event, name, unit }, sum, length) {
  const rate = sum / (length / perSecond(side));
  if (event < 0) return `${(rate / 1e9).toFixed(2)} threads wait`;
  if (unit === "ns" && side.events[event]?.is_of_cpu) return `${(rate / 1e9).toFixed(2)} CPUs (${name})`;
  if (unit === "ns") return `${duration(rate)} of ${name} per second`;
  return `${rate >= 100 ? count(rate) : rate.toFixed(1)} ${unit}/s${unit === name ? "" : ` (${name})`}`;
}
