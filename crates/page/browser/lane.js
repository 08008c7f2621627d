// The stacks of one thread in the order of time, and what of them is drawn.

import { beganAt, endedAt } from "./data.js";
import { Paths } from "./paths.js";

/** @import {Page, Side} from "./data.js" */
/** @import {State} from "./state.js" */
/** @import {Scale} from "./axis.js" */

/** A sample lasts until the next one, but not longer than so many times the usual distance: then the thread did something else. */
const PATIENCE = 1.5;

/**
 * Stretches of time with one stack each, in the order of time. They do not overlap.
 * @typedef {object} Lane
 * @property {Float64Array} begin
 * @property {Float64Array} end
 * @property {Uint32Array} sample
 * @property {Uint32Array} node the innermost frame, in `tree`
 * @property {Uint8Array} isWait
 * @property {Paths} tree
 * @property {Uint32Array} depth of each node; the root of all has 0
 * @property {number} deepest
 */

/** Frames of neighbours that are drawn as one, or what a thread waits for. @typedef {{x: number, width: number, depth: number, node: number, first: number, last: number, isWait: boolean}} LaneBox */
/** A stretch that is drawn. @typedef {{x: number, right: number, at: number}} Picked */

/**
 * Collects the stacks of a thread.
 * @param {Page} page @param {Side} side @param {number} thread @param {Uint8Array} rows 1 for rows that count @param {Float64Array} intervals of events @param {State} state @param {Paths} [tree] for this state
 * @returns {Lane}
 */
export function laneOf(page, side, thread, rows, intervals, state, tree = new Paths(page, state)) {
  /** @type {number[]} */
  const samples = [];
  for (let i = side.thread_begin[thread]; i < side.thread_begin[thread + 1]; i++) if (rows[side.sample_row[i]]) samples.push(i);
  const isWaitOf = (/** @type {number} */ i) => side.events[side.row_event[side.sample_row[i]]]?.is_wait === true;
  const beginOf = (/** @type {number} */ i) => isWaitOf(i) ? beganAt(side, i) : side.sample_time[i];
  // Samples are ordered by when the thread ran again.
  if (samples.some((it, i) => i > 0 && beginOf(it) < beginOf(samples[i - 1]))) samples.sort((a, b) => beginOf(a) - beginOf(b) || a - b);
  const { length } = samples, begin = new Float64Array(length), end = new Float64Array(length), isWait = new Uint8Array(length);
  samples.forEach((it, i) => {
    const event = side.row_event[side.sample_row[it]];
    begin[i] = beginOf(it);
    isWait[i] = Number(isWaitOf(it));
    // What happens at one moment is there for a moment.
    end[i] = isWait[i] ? endedAt(side, it) : begin[i] + Math.max(1, PATIENCE * (intervals[event] ?? 0));
    if (i > 0 && end[i - 1] > begin[i]) end[i - 1] = begin[i];
  });
  const ofStack = tree.node[side.index], node = Uint32Array.from(samples, (it) => ofStack[side.row_stack[side.sample_row[it]]]);
  const { parent } = tree, depth = new Uint32Array(tree.length);
  for (let at = 1; at < depth.length; at++) depth[at] = depth[parent[at]] + 1;
  const deepest = node.reduce((most, it) => Math.max(most, depth[it]), 0);
  return { begin, end, sample: Uint32Array.from(samples), node, isWait, tree, depth, deepest };
}

/** Finds the first stretch that begins at or behind a time. @param {ArrayLike<number>} times in order @param {number} time @returns {number} */
export function firstAt(times, time) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Chooses what is drawn: every stretch if there is a pixel for each; else the one in the middle of each pixel.
 * @param {Lane} lane @param {Scale} scale @returns {{picks: Picked[], inside: number, perPixel: number}} how many there are, and how many in a pixel, of which one is drawn if it is more than 1
 */
export function picksOf(lane, scale) {
  const { begin, end } = lane, { from, to, left, width } = scale;
  const behind = firstAt(begin, to);
  let first = firstAt(begin, from);
  if (first > 0 && end[first - 1] > from) first--;
  const inside = behind - first, right = left + width;
  /** @type {Picked[]} */
  const picks = [];
  if (inside <= width) {
    for (let at = first; at < behind; at++) {
      if (end[at] > begin[at]) picks.push({ x: Math.max(left, scale.x(begin[at])), right: Math.min(right, scale.x(end[at])), at });
    }
    return { picks, inside, perPixel: inside / width };
  }
  for (let x = left; x < right; x++) {
    const time = scale.time(x + 0.5), at = firstAt(begin, time + 1e-9) - 1;
    if (at < 0 || end[at] <= time) continue;
    const last = picks[picks.length - 1];
    if (last?.at === at && last.right === x) last.right = x + 1;
    else picks.push({ x, right: x + 1, at });
  }
  return { picks, inside, perPixel: inside / width };
}

/**
 * Lays frames out: neighbours below the same callers are one box. Only boxes of the depths that are seen are made.
 * @param {Lane} lane @param {Picked[]} picks @param {number} shallowest @param {number} deepest @returns {LaneBox[]}
 */
export function boxesOf({ node, isWait, tree: { parent }, depth }, picks, shallowest, deepest) {
  /** @type {LaneBox[]} */
  const boxes = [];
  /** Where the open box of each depth begins, and with which stretch. @type {{x: number, first: number}[]} */
  const open = [];
  let leaf = 0, right = 0, last = 0;
  /** Ends the boxes from the leaf up to a node. @param {number} upTo */
  const close = (upTo) => {
    for (; leaf !== upTo; leaf = parent[leaf]) {
      const at = depth[leaf];
      if (at < shallowest || at > deepest) continue;
      boxes.push({ x: open[at].x, width: right - open[at].x, depth: at, node: leaf, first: open[at].first, last, isWait: false });
    }
  };
  for (const pick of picks) {
    const next = node[pick.at];
    close(pick.x > right + 0.01 ? 0 : common(parent, depth, leaf, next));
    for (let at = next; at !== leaf; at = parent[at]) open[depth[at]] = { x: pick.x, first: pick.at };
    leaf = next;
    right = pick.right;
    last = pick.at;
    const over = depth[next] + 1;
    if (isWait[pick.at] && over >= shallowest && over <= deepest) {
      boxes.push({ x: pick.x, width: right - pick.x, depth: over, node: next, first: last, last, isWait: true });
    }
  }
  close(0);
  return boxes;
}

/** Finds the innermost frame that two frames have in common. @param {ArrayLike<number>} parent @param {ArrayLike<number>} depth @param {number} a @param {number} b @returns {number} */
function common(parent, depth, a, b) {
  while (a !== b) {
    if (depth[a] >= depth[b]) a = parent[a];
    else b = parent[b];
  }
  return a;
}

/**
 * Finds the node of another tree at the end of the same path; where that tree does not have it, its nearest caller that it has.
 * @param {Pick<import("./tree.js").Calls, "label" | "parent">} from @param {number} node @param {import("./tree.js").Calls} to @param {number} begin the node of `to` where stacks of this thread begin @returns {{node: number, isWhole: boolean}}
 */
export function sameIn(from, node, to, begin) {
  const labels = [];
  for (let at = node; at !== 0; at = from.parent[at]) labels.push(from.label[at]);
  let found = begin;
  while (labels.length) {
    const label = labels.pop(), next = Array.from(to.children(found)).find((it) => to.label[it] === label);
    if (next === undefined) return { node: found, isWhole: false };
    found = next;
  }
  return { node: found, isWhole: true };
}
