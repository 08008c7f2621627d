import assert from "node:assert/strict";
import { test } from "node:test";

import { Bins, Reach, amountOf, kindsOf, spread } from "../../crates/page/browser/activity.js";
import { Scale, endOf, ticksOf } from "../../crates/page/browser/axis.js";
import { cellsOf, shadeOf } from "../../crates/page/browser/cells.js";
import { choose } from "../../crates/page/browser/choose.js";
import { counterText, valuesOf } from "../../crates/page/browser/counters.js";
import { boxesOf, laneOf, picksOf, sameIn } from "../../crates/page/browser/lane.js";
import { filterOf, fitted, stretchOf } from "../../crates/page/browser/lens.js";
import { gripAt } from "../../crates/page/browser/overview.js";
import { tracksOf } from "../../crates/page/browser/tracks.js";
import { Forest } from "../../crates/page/browser/forest.js";
import { Tree, nameOf } from "../../crates/page/browser/tree.js";
import { layWaits, waitEvents, waitLists, wakerOf } from "../../crates/page/browser/waits.js";
import { CPU, FAULT, WAIT, page, state } from "./side.mjs";

const one = [["a", 7, 7]];
const all = (side) => new Uint8Array(side.row_stack.length).fill(1);
const sumOf = (values) => values.reduce((sum, it) => sum + it, 0);

test("a span adds its amount once, however many columns it covers", () => {
  for (const [begin, end] of [[0, 8], [1.25, 1.5], [1.5, 6.75], [2, 3], [7.5, 8]]) {
    const bins = new Bins(8);
    bins.span(begin, end, 12);
    assert.ok(Math.abs(sumOf(bins.finish()) - 12) < 1e-9, `${begin} to ${end}`);
  }
});

test("what lies beside the columns is not counted, and leaves nothing", () => {
  const bins = new Bins(4);
  bins.span(-4, 2, 6);
  bins.span(3.5, 9.5, 6);
  bins.span(-3, -1, 5);
  bins.point(4, 1);
  assert.deepEqual([...bins.finish()].map((it) => Math.round(it * 1e6) / 1e6), [1, 1, 0, 0.5]);
});

test("a sample of CPU time counts before its moment, a wait until its end, a fault at its moment", () => {
  const { sides: [side] } = page({ threads: one, samples: [
    { time: 20_000, stack: "main", event: CPU }, { time: 90_000, stack: "main", event: FAULT, weight: 1 },
    { time: 80_000, stack: "main", event: WAIT, kind: "futex", lasted: 30_000, late: 10_000 },
  ] });
  const reach = new Reach(side), by = {};
  for (const kind of kindsOf(side, all(side), "weight")) {
    by[kind.name] = [...spread(side, { rows: kind.rows, from: 0, to: 100_000, columns: 10, amount: amountOf(side, kind), reach })];
  }
  assert.deepEqual(by["cpu-clock"], [0, 10_000_000, 0, 0, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual(by.waits, [0, 0, 0, 0, 10_000_000, 10_000_000, 10_000_000, 0, 0, 0]);
  assert.deepEqual(by["page-faults"], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
});

test("a stretch shows also waits that end behind it", () => {
  const { sides: [side] } = page({ threads: one, samples: [{ time: 900_000, stack: "main", event: WAIT, kind: "poll", lasted: 800_000 }] });
  const [kind] = kindsOf(side, all(side), "weight");
  const sums = spread(side, { rows: kind.rows, from: 200_000, to: 300_000, columns: 2, amount: amountOf(side, kind), reach: new Reach(side) });
  assert.deepEqual([...sums].map(Math.round), [50_000_000, 50_000_000]);
});

test("ticks are round and lie in the stretch", () => {
  assert.deepEqual(ticksOf(0.98, 1.32, 4).map((it) => it.text), ["1.0 s", "1.1 s", "1.2 s", "1.3 s"]);
  assert.deepEqual(ticksOf(0, 1000, 3).map((it) => it.at), [0, 500, 1000]);
  assert.deepEqual(ticksOf(5, 5, 3), []);
});

test("a stretch stays in the recording and becomes no filter where it is the whole of it", () => {
  const { sides: [side] } = page({ threads: one, samples: [{ time: 5, stack: "main" }] });
  assert.deepEqual(fitted(-50, 50, 1000), [0, 100]);
  assert.deepEqual(fitted(950, 1050, 1000), [900, 1000]);
  assert.deepEqual(fitted(-10, 5000, 1000), [0, 1000]);
  assert.deepEqual(filterOf(side, 0, endOf(side)), { from: -1, to: -1 });
  const filter = filterOf(side, 250_000, 500_000);
  assert.deepEqual(filter, { from: 0.25, to: 0.5 });
  assert.deepEqual(stretchOf(side, state(filter)), [250_000, 500_000]);
});

test("a drag moves an edge, the stretch, or begins another", () => {
  assert.equal(gripAt(50, 0, 100, true), "new");
  assert.deepEqual([97, 103, 150, 201, 300].map((x) => gripAt(x, 100, 200, false)), ["from", "from", "move", "to", "new"]);
});

test("waits lie where they lasted, and those of one pixel are counted", () => {
  const { sides: [side] } = page({ threads: one, samples: [
    { time: 300, stack: "main", event: WAIT, kind: "futex", lasted: 100, late: 50 },
    { time: 501, stack: "main", event: WAIT, kind: "poll", lasted: 1 }, { time: 505, stack: "main", event: WAIT, kind: "disk", lasted: 3 },
    { time: 508, stack: "main", event: WAIT, kind: "poll", lasted: 1 },
  ] });
  const bars = layWaits(side, waitLists(side), 0, all(side), new Scale(0, 1000, 0, 100));
  assert.deepEqual(bars.map(({ x, width, kind, number }) => [x, Math.round(width), kind, number]), [[15, 10, "futex", 1], [50, 1, "disk", 3]]);
  const zoomed = layWaits(side, waitLists(side), 0, all(side), new Scale(200, 220, 0, 100));
  assert.deepEqual(zoomed.map(({ x, width }) => [x, width]), [[0, 100]]);
});

test("waits are shown beside the usual events, and not beside others that were chosen", () => {
  const { sides: [side] } = page({ threads: one, samples: [{ time: 5, stack: "main" }] });
  assert.deepEqual(waitEvents(side, state()), ["off-cpu"]);
  assert.deepEqual(waitEvents(side, state({ event: ["cpu-clock"] })), []);
});

test("a waker is found by its numbers on the same host only", () => {
  const { sides: [side] } = page({ threads: [["a", 7, 8, "x"], ["b", 7, 8, "y"]], samples: [{ time: 5, stack: "main" }] });
  assert.equal(wakerOf(side, "b 7/8", "y"), side.threads[1]);
  assert.equal(wakerOf(side, "hard interrupt", "y"), undefined);
});

test("a sum is shown as its growth per second, a level until its next reading", () => {
  const { sides: [side] } = page({ threads: one, samples: [{ time: 5, stack: "main" }] }), scale = new Scale(0, 1_000_000, 0, 10);
  const sum = { owner: null, host: null, name: "cpu", unit: "ns", is_sum: true, values: [[-100_000, 0], [400_000, 1e9], [800_000, 1e9]] };
  assert.deepEqual([...valuesOf(side, sum, scale)].map(Math.round), [2e9, 2e9, 2e9, 2e9, 0, 0, 0, 0, NaN, NaN]);
  const level = { ...sum, name: "memory", unit: "bytes", is_sum: false, values: [[100_000, 5], [250_000, 9], [300_000, 2], [600_000, 2]] };
  assert.deepEqual([...valuesOf(side, level, scale)], [NaN, 5, 9, 2, 2, 2, NaN, NaN, NaN, NaN]);
  assert.equal(counterText(sum, 1.5e9), "1.50 CPUs");
  assert.equal(counterText({ ...sum, name: "cpu_pressure" }, 5e8), "50.0% of the time");
});

test("tracks are ordered by weight, and all are there", () => {
  const counters = [{ owner: { tgid: 9, comm: "c" }, host: null, name: "memory", unit: "bytes", is_sum: false, values: [[0, 1], [5, 2]] },
    { owner: null, host: null, name: "cpu", unit: "ns", is_sum: true, values: [[0, 1], [5, 2]] },
    { owner: null, host: null, name: "memory_total", unit: "bytes", is_sum: false, values: [[0, 1024], [5, 1024]] }];
  const { sides: [side] } = page({ threads: [["a", 7, 7], ["b", 8, 8], ["b", 8, 10]], samples: [{ time: 5, stack: "main" }], counters });
  const names = (flipped) => tracksOf(side, [1, 2, 3], [0, 0, 0], new Set(flipped)).map((it) => `${it.kind} ${it.name}`);
  assert.deepEqual(names([]), ["group machine", "process b 8", "thread b 10", "thread b 8", "process a 7", "process c 9"]);
  assert.deepEqual(names(["machine", "8", "9"]), ["group machine", "counter CPUs that run", "note did not change, or was read once: memory of the machine 1.0 KiB",
    "process b 8", "process a 7", "process c 9", "group counters"]);
});

const stacks = page({ threads: one, samples: [
  { time: 0, stack: "main;read" }, { time: 10_000, stack: "main;read" }, { time: 20_000, stack: "main;work" },
  { time: 60_000, stack: "main;work" }, { time: 90_000, stack: "main;read", event: WAIT, kind: "pipe", lasted: 20_000, late: 5_000 },
] });

/** Lays out all of `stacks` on so many pixels. */
function laid(width) {
  const [side] = stacks.sides, lane = laneOf(stacks, side, 0, all(side), new Reach(side).intervals, state());
  const scale = new Scale(0, 100_000, 0, width), { picks, inside, perPixel } = picksOf(lane, scale);
  const boxes = boxesOf(lane, picks, 0, 9).map((box) => `${box.isWait ? "waits" : nameOf(stacks, lane.tree, box.node)} ${box.depth}: ${box.x} ${box.width}`);
  return { lane, boxes, inside, perPixel };
}

test("a sample lasts until the next one, and not long if there is none; neighbours merge", () => {
  const { boxes, inside } = laid(100);
  assert.equal(inside, 5);
  assert.deepEqual(boxes, ["read 2: 0 20", "work 2: 20 15", "main 1: 0 35", "work 2: 60 5", "waits 3: 65 20", "read 2: 65 20", "main 1: 60 25"]);
});

test("of several samples in a pixel one is drawn, and their number is known", () => {
  const { boxes, inside, perPixel } = laid(2);
  assert.deepEqual([inside, perPixel], [5, 2.5]);
  assert.deepEqual(boxes, ["work 2: 0 1", "waits 3: 1 1", "read 2: 1 1", "main 1: 0 2"]);
});

test("the path of a frame is found in another tree", () => {
  const [side] = stacks.sides, { lane } = laid(100);
  const chosen = { ...choose(stacks, side, state()), weight: Float64Array.of(0, 0, 1, 0, 0) }, rootless = state({ root: "none" });
  const tree = new Tree(new Forest(stacks, rootless), chosen, rootless);
  const node = lane.node[2];
  assert.equal(nameOf(stacks, tree, sameIn(lane.tree, node, tree, 0).node), "work");
  assert.deepEqual(sameIn(lane.tree, lane.node[0], tree, 0), { node: 1, isWhole: false });
});

test("of a deep stack the depths that are seen are laid out", () => {
  const deep = page({ threads: one, samples: [{ time: 0, stack: Array(2000).fill("f").join(";") }, { time: 10_000, stack: "f" }] }), [side] = deep.sides;
  const lane = laneOf(deep, side, 0, all(side), new Reach(side).intervals, state());
  const { picks } = picksOf(lane, new Scale(0, 20_000, 0, 100));
  assert.equal(boxesOf(lane, picks, 1990, 2005).length, 11);
  assert.equal(lane.deepest, 2000);
});

test("cells add up to all samples, and waits lie where they lasted", () => {
  const { sides: [side] } = page({ threads: one, length: 2_500_000, samples: [
    { time: 5, stack: "main" }, { time: 1_030_000, stack: "main" }, { time: 2_000_000, stack: "main", event: WAIT, kind: "poll", lasted: 40_000, weight: 40_000_000, late: 10_000 },
  ] });
  const { columns, seconds, sum, most } = cellsOf(side, { rows: all(side), unit: "ns" }, 100);
  assert.deepEqual([columns, seconds, Math.round(sumOf(sum)), most], [3, 1, 60_000_000, 20_000_000]);
  assert.deepEqual([sum[0], sum[51], sum[97], sum[98], sum[99]].map(Math.round), [10_000_000, 10_000_000, 10_000_000, 20_000_000, 10_000_000]);
  assert.deepEqual([cellsOf(side, { rows: all(side), unit: "samples" }, 2)].map((it) => [it.columns, it.seconds]), [[2, 2]]);
});

test("colors of cells go from the background to its opposite", () => {
  for (const dark of [false, true]) {
    const light = Array.from({ length: 11 }, (_, i) => sumOf(shadeOf(i / 10, dark)));
    assert.ok(light.every((it, i) => i === 0 || (dark ? it > light[i - 1] : it < light[i - 1])), String(light));
  }
});
