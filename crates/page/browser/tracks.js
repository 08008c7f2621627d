// The list of tracks: machine, cgroups and processes, each with its counters and threads where they are unfolded.

import { counterName, counterText, isConstant } from "./counters.js";

/** @import {Counter, Side} from "./data.js" */

/**
 * A line of the picture.
 * @typedef {object} Track
 * @property {"group" | "counter" | "process" | "thread" | "note"} kind a group has counters; a note says what is not drawn
 * @property {string} key
 * @property {string} name
 * @property {number} depth how far it is indented
 * @property {number[]} threads
 * @property {Counter} [counter] what is drawn
 * @property {boolean} [isOpen] undefined: nothing to unfold
 * @property {number} weight
 */

/** The most threads that are unfolded before the user asks. */
const UNFOLDED = 24;
/** How many counters are drawn before they are unfolded: the first of these. */
const FIRST = ["cpu", "memory"];

/**
 * Lists tracks: machines and cgroups, then processes and threads, heaviest first.
 * @param {Side} side @param {ArrayLike<number>} weight of each thread @param {ArrayLike<number>} waited by each thread, which orders those of one weight
 * @param {Set<string>} flipped keys of what the user folded or unfolded @returns {Track[]}
 */
export function tracksOf(side, weight, waited, flipped) {
  /** @type {Track[]} */
  const tracks = [];
  for (const [name, counters] of groupsOf(side)) withCounters(tracks, name, name, counters, 0, flipped);
  const heavier = (/** @type {number} */ a, /** @type {number} */ b) => weight[b] - weight[a] || waited[b] - waited[a] || a - b;
  const processes = [...processesOf(side).values()];
  for (const process of processes) {
    process.threads.sort(heavier);
    for (const thread of process.threads) {
      process.weight += weight[thread];
      process.waited += waited[thread];
    }
  }
  processes.sort((a, b) => b.weight - a.weight || b.waited - a.waited || a.order - b.order);
  let unfolded = 0;
  for (const { key, name, threads, counters, weight: sum } of processes) {
    // The only thread of a process is drawn as the process.
    const lines = threads.length > 1 ? threads : [], usually = lines.length > 0 && unfolded + lines.length <= UNFOLDED && sum > 0;
    if (usually) unfolded += lines.length;
    const isOpen = lines.length || counters.length ? usually !== flipped.has(key) : undefined, whose = threads.length ? side.threads[threads[0]].process : name;
    tracks.push({ kind: "process", key, name: `${whose} ${key}`, depth: 0, threads, isOpen, weight: sum });
    if (!isOpen) continue;
    for (const thread of lines) {
      const it = side.threads[thread];
      tracks.push({ kind: "thread", key: it.key, name: `${it.comm} ${it.tid}`, depth: 1, threads: [thread], weight: weight[thread] });
    }
    withCounters(tracks, `counters of ${key}`, "counters", counters, 1, flipped);
  }
  return tracks;
}

/**
 * Appends a group of counters: folded it draws the first of them, and a note names those that never changed.
 * @param {Track[]} tracks @param {string} key @param {string} name @param {Counter[]} counters @param {number} depth @param {Set<string>} flipped
 */
function withCounters(tracks, key, name, counters, depth, flipped) {
  if (!counters.length) return;
  const isOpen = flipped.has(key), first = counters.find((it) => FIRST.includes(it.name)) ?? counters[0];
  tracks.push({ kind: "group", key, name, depth, threads: [], counter: isOpen ? undefined : first, isOpen, weight: 0 });
  if (!isOpen) return;
  const [constant, drawn] = [counters.filter(isConstant), counters.filter((it) => !isConstant(it))];
  drawn.forEach((counter, i) => tracks.push({ kind: "counter", key: `${key} ${i}`, name: counterName(counter), depth: depth + 1, threads: [], counter, weight: 0 }));
  if (!constant.length) return;
  const texts = constant.map((it) => it.is_sum ? counterName(it) : `${counterName(it)} ${counterText(it, it.values[0]?.[1])}`);
  tracks.push({ kind: "note", key: `${key} constant`, name: `did not change, or was read once: ${texts.join(", ")}`, depth: depth + 1, threads: [], weight: 0 });
}

/** The counters of machines and cgroups, by name. @param {Side} side @returns {Map<string, Counter[]>} */
function groupsOf(side) {
  const groups = new Map();
  for (const counter of side.counters) {
    const { owner, host } = counter;
    if (owner?.tgid !== undefined) continue;
    const name = [owner?.cgroup === undefined ? "machine" : `cgroup ${owner.cgroup}`, ...(host ? [host] : [])].join(" ");
    groups.set(name, [...groups.get(name) ?? [], counter]);
  }
  return groups;
}

/** The processes by key, also those of which there are only counters. @param {Side} side */
function processesOf(side) {
  /** @type {Map<string, {key: string, name: string, threads: number[], counters: Counter[], weight: number, waited: number, order: number}>} */
  const processes = new Map();
  const of = (/** @type {string} */ key, /** @type {string} */ name) => {
    let known = processes.get(key);
    if (!known) processes.set(key, known = { key, name, threads: [], counters: [], weight: 0, waited: 0, order: processes.size });
    return known;
  };
  const keys = new Map();
  side.threads.forEach((thread, i) => {
    of(thread.processKey, thread.process).threads.push(i);
    keys.set(`${thread.host}:${thread.tgid}`, thread.processKey);
  });
  for (const counter of side.counters) {
    const { owner, host } = counter;
    if (owner?.tgid === undefined) continue;
    const key = keys.get(`${host ?? null}:${owner.tgid}`) ?? (host ? `${host}:${owner.tgid}` : String(owner.tgid));
    of(key, owner.comm ?? "?").counters.push(counter);
  }
  return processes;
}
