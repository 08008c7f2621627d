// The sums that the page finds are those that the command line prints, for the same filters.

import { test } from "node:test";
import assert from "node:assert/strict";
import { json, model, read, recording, report, write } from "./harness.mjs";
import { around, inverted } from "../../crates/page/browser/lazy.js";
import { search, shareOf } from "../../crates/page/browser/sums.js";
import { Forest } from "../../crates/page/browser/forest.js";
import { Tree, nameOf, totalsOf } from "../../crates/page/browser/tree.js";
import { isDoubtful } from "../../crates/page/browser/data.js";
import { cut } from "../../crates/page/browser/text.js";
import { START, fromFragment, toFragment } from "../../crates/page/browser/state.js";
import { choose, rangeOf } from "../../crates/page/browser/choose.js";

/** @import {State} from "../../crates/page/browser/state.js" */

const BUSY = read(write("busy"));

/** States of the page, and the options of the command line that say the same. @type {[string, Partial<State>, string[]][]} */
const SAME = [
  ["everything", {}, []],
  ["a process", { process: ["9"] }, ["--pid", "9"]],
  ["two processes", { process: ["7", "9"] }, ["--pid", "7,9"]],
  ["a thread that waits", { thread: ["7/8"], event: ["off-cpu"] }, ["--tid", "8", "--event", "off-cpu"]],
  ["bytes", { event: ["kmem"] }, ["--event", "kmem"]],
  ["events of one unit", { event: ["cpu-clock", "run-delay"] }, ["--event", "cpu-clock,run-delay"]],
  ["a stretch of time", { from: 0.1, to: 0.35 }, ["--from", "0.1", "--to", "0.35"]],
  ["from a time on", { from: 0.2505 }, ["--from", "0.2505"]],
  ["until a time", { to: 0.003 }, ["--to", "0.003"]],
  ["samples with a function", { focus: ["even"] }, ["--focus", "^even$"]],
  ["samples without a function", { without: ["even"] }, ["--ignore", "^even$"]],
  ["hidden frames", { hide: ["odd"] }, ["--hide", "^odd$"]],
  ["all of it", { process: ["9"], from: 0.1, to: 0.4, focus: ["odd"], hide: ["main"] }, ["--pid", "9", "--from", "0.1", "--to", "0.4", "--focus", "^odd$", "--hide", "^main$"]],
];

/** Checks the functions of a page against those of `top`. @param {any} page @param {any} top @param {Partial<State>} state @returns {number} how many there are */
function sameFunctions(page, top, state) {
  const { chosen, data, sums } = model(page, state);
  assert.deepEqual([chosen.total, chosen.samples, chosen.unit], [top.total_weight, top.total_samples, top.unit]);
  const expected = new Map(top.rows.map((/** @type {any} */ row) => [row.name, [row.self, row.total]]));
  const seen = data.functions.map((it, i) => /** @type {[string, [number, number]]} */ ([it.name, [sums.own[i], sums.total[i]]]));
  assert.deepEqual(new Map(seen.filter(([, [, total]]) => total > 0).sort()), new Map([...expected].sort()));
  assert.ok(expected.size > 0);
  return expected.size;
}

test("inlined functions stand apart, or are part of the function that holds their code", () => {
  const page = read(write("code"));
  const [apart, physical] = /** @type {const} */ ([["", "inlined"], ["physical", "function"]]).map(([merge, by]) => (
    sameFunctions(page, json("top", recording("code"), "--by", by, "-n", "0"), { merge })));
  assert.ok(physical < apart, `${physical} of ${apart}`);
});

for (const [title, state, options] of SAME) {
  test(`self and total of every function: ${title}`, () => {
    sameFunctions(BUSY, json("top", recording("busy"), "--by", "inlined", "-n", "0", ...options), state);
  });

  test(`stacks: ${title}`, () => {
    const { stacks } = json("folded", recording("busy"), "--no-annotations", ...options);
    const folded = stacks.map((/** @type {any} */ it) => [it.frames.join(";"), it.weight]);
    const { data, tree } = model(BUSY, state), seen = new Map();
    for (let node = 1; node < tree.length; node++) if (tree.own[node]) seen.set(path(data, tree, node).reverse().join(";"), tree.own[node]);
    assert.deepEqual(new Map([...seen].sort()), new Map(folded.sort()));
  });
}

test("a name is cut to the longest form that fits", () => {
  const forms = ["ns::Pool<Job>::take(…)", "Pool::take"], name = "std::vector<int> ns::Pool<Job>::take(unsigned long) const";
  assert.deepEqual([99, 22, 21, 10, 9, 2].map((most) => cut(name, most, forms)), [name, forms[0], forms[1], forms[1], "Pool:…ake", ""]);
});

for (const name of ["busy", "deep", "hostile"]) {
  test(`doubtful stacks are those of samples: ${name}`, () => {
    const samples = report("samples", recording(name), "--json").split("\n").filter(Boolean).map((line) => JSON.parse(line));
    const doubtful = samples.filter((it) => it.incomplete || it.frames.some((/** @type {any} */ frame) => frame.guessed));
    const { data, chosen, tree } = model(read(write(name))), { taken, row_taken } = data.sides[0];
    const totals = totalsOf(tree, chosen, (row) => isDoubtful(taken[row_taken[row]]));
    const sum = (/** @type {any[]} */ all) => all.reduce((sum, it) => sum + (chosen.unit === "samples" ? 1 : it.weight), 0);
    assert.deepEqual([totals[0], chosen.total], [sum(doubtful), sum(samples)]);
    if (name === "busy") assert.ok(doubtful.length > 0 && doubtful.length < samples.length);
    for (const child of tree.children(0)) assert.ok(totals[child] <= tree.total[child]);
  });
}

/** Names from a node to the root. @param {any} data @param {Pick<import("../../crates/page/browser/tree.js").Calls, "label" | "parent" | "roots" | "images">} calls @param {number} node */
function path(data, calls, node) {
  const names = [];
  for (let at = node; at !== 0; at = calls.parent[at]) names.push(nameOf(data, calls, at));
  return names;
}

/**
 * Lists the paths of a tree with self and total, all branches opened.
 * @param {any} data @param {import("../../crates/page/browser/tree.js").Calls} calls
 */
function opened(data, calls) {
  /** @type {Map<string, [number, number]>} */
  const all = new Map(), work = [0];
  for (let node = work.pop(); node !== undefined; node = work.pop()) {
    // What ended in a node is known once its children are made.
    work.push(...calls.children(node));
    if (node) all.set(path(data, calls, node).reverse().join(" → "), [calls.own[node], calls.total[node]]);
  }
  return all;
}

/** The same of `tree --json`. @param {any} node @param {string[]} above @param {Map<string, [number, number]>} all */
function printed(node, above = [], all = new Map()) {
  for (const child of node.children ?? []) {
    const names = [...above, child.name];
    all.set(names.join(" → "), [child.self, child.total]);
    printed(child, names, all);
  }
  return all;
}

for (const [title, state, option] of /** @type {const} */ ([["root first", {}, "--callees"], ["leaf first", { root: "none" }, "--callers"]])) {
  test(`the tree, ${title}`, () => {
    const tree = json("tree", recording("busy"), option, "--min-percent", "0");
    const { data, tree: own } = model(BUSY, state);
    const seen = opened(data, option === "--callers" ? inverted(own) : own);
    assert.deepEqual([...seen].sort(), [...printed(tree)].sort());
  });
}

test("frames that are taken out of the tree of all stacks leave the tree of the other frames", () => {
  const all = new Forest(BUSY, START), names = BUSY.functions.map((it) => it.name), [chosen] = BUSY.sides.map((side) => choose(BUSY, side, START));
  for (const root of ["none", "process"]) {
    for (const one of names) {
      for (const other of names) {
        const state = { ...START, root, hide: [one, other] }, known = root === START.root ? all : new Forest(BUSY, { ...START, root });
        const [fast, slow] = [new Forest(BUSY, state, known), new Forest(BUSY, state)].map((forest) => new Tree(forest, chosen, state));
        assert.deepEqual(opened(BUSY, fast), opened(BUSY, slow), `${one} ${other}`);
        assert.deepEqual([fast.length, fast.emptied], [slow.length, slow.emptied], `${one} ${other}`);
      }
    }
  }
});

test("a tree of all stacks serves every filter: what weighs nothing is no child", () => {
  const forest = new Forest(BUSY, START);
  for (const [title, state] of SAME.filter(([, { hide }]) => !hide)) {
    const { chosen, tree } = model(BUSY, state), own = new Tree(forest, chosen, { ...START, ...state });
    assert.deepEqual(opened(BUSY, own), opened(BUSY, tree), title);
    for (let node = 0; node < own.length; node++) assert.ok(own.children(node).every((it) => own.total[it] > 0), title);
  }
});

test("what a search finds is what --focus leaves", () => {
  const all = json("top", recording("busy")).total_weight;
  for (const [text, regex] of [["EV", "(?i)ev"], ["/^o/", "^o"], ["read", "read"], ["/MAIN/i", "(?i)main"]]) {
    const { tree } = model(BUSY), { matches, wrong } = search(BUSY, text);
    const focused = json("top", recording("busy"), "--focus", regex).total_weight;
    assert.deepEqual([shareOf(tree, matches), wrong], [focused, ""], text);
    assert.ok(focused > 0 && focused <= all);
  }
  assert.match(search(BUSY, "/(/").wrong, /Unterminated group/);
});

test("recursion drawn once: no function twice on a path, and what ended in each is the same", () => {
  const { sums, tree } = model(BUSY), collapsed = model(BUSY, { collapse: true });
  assert.deepEqual(collapsed.sums.own, sums.own);
  assert.ok(collapsed.tree.length < tree.length);
  for (let node = 1; node < collapsed.tree.length; node++) {
    const names = path(BUSY, collapsed.tree, node);
    assert.equal(new Set(names).size, names.length, names.join(" ← "));
  }
});

test("callers and callees of a function add up to its total", () => {
  const { sums, tree } = model(BUSY);
  BUSY.functions.forEach((it, label) => {
    const { callers, callees } = around(tree, label);
    for (const walk of [callers, callees]) {
      assert.equal(walk.total[0], sums.total[label], it.name);
      const work = [0];
      let own = 0;
      for (let node = work.pop(); node !== undefined; node = work.pop()) {
        const below = walk.children(node).reduce((sum, child) => sum + walk.total[child], 0);
        assert.equal(walk.own[node] + below, walk.total[node], `${it.name}: ${path(BUSY, walk, node)}`);
        own += walk.own[node];
        work.push(...walk.children(node));
      }
      assert.equal(own, sums.total[label], it.name);
    }
  });
});

test("a stack of 12,000 frames is merged, searched, summed and turned around", () => {
  const data = read(write("deep")), { chosen, tree, sums } = model(data);
  assert.ok(tree.length > 12_000, `${tree.length} nodes`);
  const label = data.functions.findIndex((it) => it.name === "level05");
  assert.equal(sums.total[label], chosen.total);
  assert.equal(shareOf(tree, search(data, "level05").matches), chosen.total);
  const { callers, callees } = around(tree, label);
  for (const walk of [callers, callees, inverted(tree)]) {
    let node = 0, depth = 0;
    for (let children = walk.children(0); children.length; children = walk.children(node)) [node, depth] = [children[0], depth + 1];
    assert.ok(depth > 0);
  }
  assert.ok(model(data, { collapse: true }).tree.length < 30);
});

test("a state comes back from its fragment, and a wrong fragment makes a state that is allowed", () => {
  const state = { ...START, from: 0.25, focus: ["a&b=c#", "</script>", "__proto__"], search: "%", inverted: true, side: 1 };
  assert.deepEqual(fromFragment(`#${toFragment(state)}`), state);
  assert.equal(toFragment(START), "");
  assert.deepEqual(fromFragment("#__proto__=1&nonsense=2&from=x&side=Infinity&selected=0.5"), START);
  assert.deepEqual(fromFragment("#from=5&to=2&search=x"), { ...START, search: "x" });
});

test("times in fragments are the very times, however they are rounded", () => {
  for (const seconds of [1.001, 0.29, 4.35, 1234.567891]) {
    const [from, to] = rangeOf(BUSY.sides[0], { ...START, from: seconds, to: seconds });
    assert.deepEqual([from, to], [Math.round(seconds * 1e6), Math.round(seconds * 1e6)], String(seconds));
  }
});
