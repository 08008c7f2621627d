// Waits of threads over time: where they lie, how they are drawn where they are too many, and what is known of one.

import { beganAt, endedAt } from "./data.js";
import { duration, element, things } from "./text.js";
import { moment } from "./axis.js";
import { colorOfWait } from "./colors.js";

/** @import {Page, Side} from "./data.js" */
/** @import {State} from "./state.js" */
/** @import {App} from "./main.js" */

/** The most frames of a stack that are listed. */
const LISTED = 200;

/** The waits of each thread in the order of time. @typedef {{begin: Uint32Array, sample: Uint32Array}} WaitLists */
/** A wait, or several in one pixel: the kind that lasted longest, the longest wait, and their number. @typedef {{x: number, width: number, kind: string, sample: number, number: number}} WaitBar */

/** The events whose samples are waits; none if the user chose other events. @param {Side} side @param {State} state @returns {string[]} */
export function waitEvents(side, state) {
  return side.events.filter((event) => event.is_wait && (!state.event.length || state.event.includes(event.name))).map((event) => event.name);
}

/** @param {Side} side @returns {WaitLists} */
export function waitLists(side) {
  const { thread_begin, row_event, sample_row } = side, isWait = Uint8Array.from(side.events, (event) => Number(event.is_wait));
  const begin = new Uint32Array(side.threads.length + 1);
  /** @type {number[]} */
  const sample = [];
  for (let thread = 0; thread < side.threads.length; thread++) {
    const own = [];
    for (let i = thread_begin[thread]; i < thread_begin[thread + 1]; i++) if (isWait[row_event[sample_row[i]]]) own.push(i);
    // A wait for something and the wait for a CPU behind it end when the thread runs again, and have this time both.
    own.sort((a, b) => endedAt(side, a) - endedAt(side, b) || a - b);
    for (const it of own) sample.push(it);
    begin[thread + 1] = sample.length;
  }
  return { begin, sample: Uint32Array.from(sample) };
}

/** @param {Side} side @param {number} sample @returns {{kind: string, waker: string}} */
export function waitOf(side, sample) {
  return side.waits[side.row_wait[side.sample_row[sample]] - 1] ?? { kind: "unknown", waker: "unknown" };
}

/**
 * Lays the waits of a thread out. A wait narrower than a pixel is drawn with all others of this pixel.
 * @param {Side} side @param {WaitLists} lists @param {number} thread @param {Uint8Array} rows 1 for rows that count
 * @param {import("./axis.js").Scale} scale @returns {WaitBar[]}
 */
export function layWaits(side, lists, thread, rows, scale) {
  const { sample_lasted: lasted } = side;
  /** @type {WaitBar[]} */
  const bars = [];
  /** @type {{bar: WaitBar, kinds: Map<string, number>}?} */
  let pixel = null;
  for (let at = firstEnding(side, lists, thread, scale.from); at < lists.begin[thread + 1]; at++) {
    const sample = lists.sample[at], end = endedAt(side, sample), from = beganAt(side, sample);
    // A thread waits for one thing at a time, so what begins later follows.
    if (from >= scale.to) break;
    if (!rows[side.sample_row[sample]]) continue;
    const x = scale.x(Math.max(from, scale.from)), width = scale.x(Math.min(end, scale.to)) - x, { kind } = waitOf(side, sample);
    if (width >= 1) {
      bars.push({ x, width, kind, sample, number: 1 });
      pixel = null;
      continue;
    }
    if (pixel?.bar.x !== Math.floor(x)) {
      pixel = { bar: { x: Math.floor(x), width: 1, kind, sample, number: 0 }, kinds: new Map() };
      bars.push(pixel.bar);
    }
    const { bar, kinds } = pixel;
    bar.number++;
    kinds.set(kind, (kinds.get(kind) ?? 0) + lasted[sample]);
    if ((kinds.get(kind) ?? 0) > (kinds.get(bar.kind) ?? 0)) bar.kind = kind;
    if (lasted[sample] > lasted[bar.sample]) bar.sample = sample;
  }
  return bars;
}

/** Finds the first wait of a thread that ends behind a time. @param {Side} side @param {WaitLists} lists @param {number} thread @param {number} time @returns {number} */
function firstEnding(side, lists, thread, time) {
  let low = lists.begin[thread], high = lists.begin[thread + 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (endedAt(side, lists.sample[middle]) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Lists the functions of a stack, innermost first. @param {Page} page @param {Side} side @param {number} sample @param {number} most @returns {{names: string[], left: number}} */
export function functionsOf(page, side, sample, most) {
  const names = [];
  let left = 0;
  for (let at = side.row_stack[side.sample_row[sample]]; at !== 0; at = side.up[at]) {
    if (names.length < most) names.push(page.functions[side.stack_function[at]].name);
    else left++;
  }
  return { names, left };
}

/** @param {App} app @param {WaitBar} bar @returns {string[]} */
export function waitLines(app, { kind, sample, number }) {
  const side = app.side(), wait = waitOf(side, sample), { names, left } = functionsOf(app.page, side, sample, 5);
  return [
    number > 1 ? `${things(number, "wait")} in this pixel, most of the time ${kind}; the longest:` : `waits: ${kind}`,
    ...(number > 1 ? [`waits: ${wait.kind}`] : []),
    `${lengthOf(side, sample)} until ${moment(side, endedAt(side, sample))} · ended by ${wait.waker}`,
    ...names,
    ...(left ? [`… and ${things(left, "frame")} more`] : []),
  ];
}

/** Says how long a wait lasted; waits that were added up have no length of their own. @param {Side} side @param {number} sample @returns {string} */
export function lengthOf(side, sample) {
  const number = side.sample_number[sample], text = duration(side.sample_lasted[sample] * side.unit_ns);
  return number > 1 ? `${things(number, "wait")} of together ${text}` : text;
}

/** What is known of a wait, for the place beside the view. @param {App} app @param {number} sample @returns {Node[]} */
export function waitCard(app, sample) {
  const side = app.side(), { kind, waker } = waitOf(side, sample), { names, left } = functionsOf(app.page, side, sample, LISTED);
  const thread = side.threads[side.row_thread[side.sample_row[sample]]], by = wakerOf(side, waker, thread.host);
  const only = (/** @type {import("./data.js").Thread} */ it, /** @type {string} */ text) => element("button", { title: "only this thread", click: () => app.set({ thread: [it.key], zoom: "" }) }, text);
  const swatch = element("span", { class: "swatch" });
  swatch.style.background = colorOfWait(kind, app.theme.dark);
  return [
    element("h2", {}, swatch, ` waits: ${kind}`),
    element("p", {}, `${lengthOf(side, sample)}, from ${moment(side, beganAt(side, sample))} to ${moment(side, endedAt(side, sample))}`),
    element("p", {}, "thread ", only(thread, `${thread.comm} ${thread.key}`)),
    element("p", {}, "ended by ", by ? only(by, waker) : waker),
    element("h3", {}, "stack, innermost first"),
    element("ol", { class: "stack" }, ...names.map((name) => element("li", { title: name }, name))),
    ...(left ? [element("p", {}, `… and ${things(left, "frame")} more`)] : []),
  ];
}

/** Finds the thread that a waker's name says, on the host of who waited. @param {Side} side @param {string} waker @param {string?} host @returns {import("./data.js").Thread | undefined} */
export function wakerOf(side, waker, host) {
  const numbers = / (\d+)\/(\d+)$/.exec(waker);
  if (!numbers) return undefined;
  return side.threads.find((it) => it.host === host && it.tgid === Number(numbers[1]) && it.tid === Number(numbers[2]));
}
