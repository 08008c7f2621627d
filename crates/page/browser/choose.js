// Which samples count: the filters, applied to rows first and to single samples only where time decides.

/** @import {Page, Side} from "./data.js" */
/** @import {State} from "./state.js" */

/**
 * The samples that the filters leave.
 * @typedef {object} Chosen
 * @property {Side} side
 * @property {Uint8Array} rows 1 for rows that count
 * @property {Float64Array} weight of each row, in `unit`
 * @property {Float64Array} number of samples of each row
 * @property {number} total the sum of the weights
 * @property {number} samples their number
 * @property {string} unit of the weights; `samples` if every sample counts as one
 * @property {boolean} isMixed the events have different units, so that every sample counts as one
 * @property {number} from the first time that counts
 * @property {number} to the time behind the last
 */

/** Returns true if the filters by process and thread leave a thread. @param {import("./data.js").Thread} thread @param {State} state @returns {boolean} */
export function isChosen(thread, state) {
  return (!state.process.length || state.process.includes(thread.processKey)) && (!state.thread.length || state.thread.includes(thread.key));
}

/** Lists the events that count, 1 for each that does. @param {Side} side @param {State} state @returns {Uint8Array} */
export function eventsOf(side, state) {
  return Uint8Array.from(side.events, (event) => Number(state.event.length ? state.event.includes(event.name) : event.is_shown));
}

/** @param {Side} side @param {State} state @returns {[number, number]} */
export function rangeOf(side, state) {
  // 1.001 s are 1,000,999.9999999999 µs to a computer.
  const units = (/** @type {number} */ seconds) => Math.round(seconds * (1e9 / side.unit_ns));
  return [state.from < 0 ? 0 : units(state.from), state.to < 0 ? 2 ** 32 : units(state.to)];
}

/** @param {Page} page @param {Side} side @param {State} state @returns {Chosen} */
export function choose(page, side, state) {
  const rows = rowsOf(side, state), [from, to] = rangeOf(side, state);
  const { isMixed, unit } = unitOf(side, rows, from, to, state);
  const stacks = chosenStacks(page, side, state);
  const { row_stack, sample_row, sample_number } = side, amount = unit === "samples" ? sample_number : side.sample_weight;
  if (stacks) for (let row = 0; row < rows.length; row++) rows[row] &= stacks[row_stack[row]];
  const weight = new Float64Array(rows.length), number = new Float64Array(rows.length);
  if (state.from < 0 && state.to < 0) {
    const sums = sumsOfRows(side), weights = unit === "samples" ? sums.number : sums.weight;
    for (let row = 0; row < rows.length; row++) {
      weight[row] = weights[row] * rows[row];
      number[row] = sums.number[row] * rows[row];
    }
  } else {
    eachSample(side, from, to, (i) => {
      const row = sample_row[i];
      weight[row] += amount[i] * rows[row];
      number[row] += sample_number[i] * rows[row];
    });
  }
  let total = 0, samples = 0;
  for (let row = 0; row < rows.length; row++) {
    total += weight[row];
    samples += number[row];
  }
  return { side, rows, weight, number, total, samples, unit, isMixed, from, to };
}

/** Adds up all samples of each row, once. @param {Side} side @returns {{weight: Float64Array, number: Float64Array}} */
function sumsOfRows(side) {
  if (side.row_sums) return side.row_sums;
  const { sample_row, sample_weight, sample_number, row_stack } = side;
  const weight = new Float64Array(row_stack.length), number = new Float64Array(row_stack.length);
  for (let i = 0; i < sample_row.length; i++) {
    weight[sample_row[i]] += sample_weight[i];
    number[sample_row[i]] += sample_number[i];
  }
  return side.row_sums = { weight, number };
}

/**
 * Visits the samples of a stretch of time, thread by thread.
 * @param {Side} side @param {number} from @param {number} to @param {(sample: number, thread: number) => void} visit
 */
export function eachSample(side, from, to, visit) {
  const { sample_time, thread_begin } = side;
  for (let thread = 0; thread < side.threads.length; thread++) {
    const end = thread_begin[thread + 1];
    for (let i = firstFrom(side, thread, from); i < end && sample_time[i] < to; i++) visit(i, thread);
  }
}

/** Finds the first sample of a thread that is not before a time. @param {Side} side @param {number} thread @param {number} time @returns {number} */
export function firstFrom(side, thread, time) {
  let low = side.thread_begin[thread], high = side.thread_begin[thread + 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (side.sample_time[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Finds the unit of the samples of some rows. A filter by function changes no unit, as on the command line.
 * @param {Side} side @param {Uint8Array} rows @param {number} from @param {number} to @param {State} state
 * @returns {{isMixed: boolean, unit: string}}
 */
function unitOf(side, rows, from, to, state) {
  const { row_event, sample_row } = side, seen = new Uint8Array(256);
  const see = (/** @type {number} */ row) => { if (rows[row]) seen[row_event[row]] = 1; };
  if (state.from < 0 && state.to < 0) for (let row = 0; row < rows.length; row++) see(row);
  else eachSample(side, from, to, (i) => see(sample_row[i]));
  /** @type {Set<string>} */
  const units = new Set();
  seen.forEach((is, event) => { if (is) units.add(side.events[event]?.unit || "samples"); });
  const isMixed = units.size > 1;
  const unit = isMixed || state.metric === "samples" ? "samples" : [...units][0] ?? "samples";
  return { isMixed, unit };
}

/** Chooses rows by event, process and thread. @param {Side} side @param {State} state @returns {Uint8Array} */
function rowsOf(side, state) {
  const events = eventsOf(side, state);
  const threads = Uint8Array.from(side.threads, (thread) => Number(isChosen(thread, state)));
  const { row_event, row_thread } = side, rows = new Uint8Array(row_event.length);
  for (let row = 0; row < rows.length; row++) {
    // A damaged recording may have samples of events that it does not describe.
    rows[row] = (events[row_event[row]] ?? 1) & threads[row_thread[row]];
  }
  return rows;
}

/**
 * Finds the stacks that the filters by function and image leave: those with each function in focus, with a function of each image, and
 * without any that is excluded.
 * @param {Page} page @param {Side} side @param {State} state @returns {Uint8Array?} null if there are no such filters
 */
function chosenStacks(page, side, state) {
  const { focus, without, image } = state;
  const wanted = [
    ...focus.map((name) => which(page, (it) => it.name === name)),
    ...image.map((path) => which(page, (it) => it.image === path)),
  ];
  if (!wanted.length && !without.length) return null;
  const left = new Uint8Array(side.up.length).fill(1);
  for (const matches of wanted) {
    const within = through(side, matches);
    for (let i = 0; i < left.length; i++) left[i] &= within[i];
  }
  if (without.length) {
    const within = through(side, which(page, (it) => without.includes(it.name)));
    for (let i = 0; i < left.length; i++) left[i] &= 1 - within[i];
  }
  return left;
}

/** Finds functions. @param {Page} page @param {(it: import("./data.js").Func) => boolean} is @returns {Uint8Array} 1 for each of them */
export function which({ functions }, is) {
  const found = new Uint8Array(functions.length);
  for (let i = 0; i < found.length; i++) found[i] = Number(is(functions[i]));
  return found;
}

/** Finds the stacks with any of some functions. @param {Side} side @param {Uint8Array} functions 1 for each of them @returns {Uint8Array} */
export function through(side, functions) {
  const { up, stack_function } = side, found = new Uint8Array(up.length);
  for (let i = 1; i < found.length; i++) found[i] = found[up[i]] | functions[stack_function[i]];
  return found;
}
