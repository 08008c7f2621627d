// Recordings by construction, for tests of modules of the page.

import { addKeys, open } from "../../crates/page/browser/data.js";
import { START } from "../../crates/page/browser/state.js";

/** The events of `page`: CPU time with a sample each 10 ms, waits, and what happens at moments. */
export const CPU = 0, WAIT = 1, FAULT = 2;

const EVENTS = [
  { name: "cpu-clock", unit: "ns", is_shown: true, is_wait: false, is_of_cpu: true, is_drawn: true },
  { name: "off-cpu", unit: "ns", is_shown: false, is_wait: true, is_of_cpu: false, is_drawn: false },
  { name: "page-faults", unit: "page-faults", is_shown: false, is_wait: false, is_of_cpu: false, is_drawn: false },
];

export const state = (changes = {}) => ({ ...START, ...changes });

/**
 * Makes a page of one recording whose times are µs. A stack is a list of functions such as "main;read", a sample
 * `{thread, time, stack, event, weight, lasted, late, kind}`.
 */
export function page({ threads, samples, length = 1_000_000, counters = [] }) {
  const names = [...new Set(samples.flatMap(({ stack }) => stack.split(";")))];
  const tries = new Map([["", 0]]), up = [0], frame = [0];
  const stackOf = (path) => {
    if (!path) return 0;
    if (tries.has(path)) return tries.get(path);
    const cut = path.lastIndexOf(";"), caller = stackOf(path.slice(0, Math.max(cut, 0)));
    up.push(caller);
    frame.push(names.indexOf(path.slice(cut + 1)));
    tries.set(path, up.length - 1);
    return up.length - 1;
  };
  const ordered = [...samples].sort((a, b) => (a.thread ?? 0) - (b.thread ?? 0) || a.time - b.time);
  const waits = [...new Set(ordered.map((it) => it.kind).filter(Boolean))];
  const empty = open(new Uint8Array([12, 0, 0, 0, ...new TextEncoder().encode('{"sides":[]}')]).buffer);
  const side = {
    index: 0, unit_ns: 1000, begin_s: 0, length, unsampled: [], events: EVENTS, counters, host: null,
    threads: threads.map(([process, tgid, tid, host = null]) => ({ tgid, tid, comm: process, process, host, cgroup: null })),
    waits: waits.map((kind) => ({ kind, waker: "b 7/8" })),
    up: Uint32Array.from({ length: 0 }), row_stack: Uint32Array.from(ordered, ({ stack }) => stackOf(stack)),
    row_event: Uint8Array.from(ordered, ({ event = CPU }) => event), row_wait: Uint32Array.from(ordered, ({ kind }) => waits.indexOf(kind) + 1),
    row_thread: Uint32Array.from(ordered, ({ thread = 0 }) => thread), row_taken: new Uint32Array(ordered.length),
    thread_begin: Uint32Array.from({ length: threads.length + 1 }, (_, n) => ordered.filter(({ thread = 0 }) => thread < n).length),
    sample_time: Uint32Array.from(ordered, ({ time }) => time), sample_row: Uint32Array.from(ordered.keys()),
    sample_lasted: Uint32Array.from(ordered, ({ lasted = 0 }) => lasted), sample_late: Uint32Array.from(ordered, ({ late = 0 }) => late),
    sample_weight: Float64Array.from(ordered, ({ weight = 10_000_000 }) => weight), sample_number: new Uint32Array(ordered.length).fill(1),
  };
  side.threads.forEach((thread) => addKeys(thread, false));
  side.up = Uint32Array.from(up);
  side.stack_function = Uint32Array.from(frame);
  const functions = names.map((name) => ({ name, image: "/bin/a", side: 0, reason: "" }));
  return { ...empty, functions, forms: new Map(), byName: Uint32Array.from(functions.keys()), imageOf: new Uint32Array(functions.length), sides: [side] };
}
