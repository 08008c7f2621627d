// The views that are tables: their rows are those that the command line prints.

import { test } from "node:test";
import assert from "node:assert/strict";
import { foot, fragment, json, on, recording, rows, settled, write } from "./harness.mjs";
import { amount, percent, short } from "../../crates/page/browser/text.js";

/** @import {Page} from "playwright-core" */

const BUSY = write("busy");

/** Filters of a page, and the options that say the same. @type {[string, string[]][]} */
const FILTERED = [
  ["", []],
  ["process=9", ["--pid", "9"]],
  ["event=off-cpu", ["--event", "off-cpu"]],
  ["collapse=true&process=9", ["--pid", "9"]],
  ["from=0.1&to=0.35&focus=main", ["--from", "0.1", "--to", "0.35", "--focus", "^main$"]],
];

for (const [filter, options] of FILTERED) {
  test(`the list of functions is that of top: ${filter || "everything"}`, () => on(BUSY, `view=functions&${filter}`, async (page) => {
    const top = json("top", recording("busy"), "--by", "inlined", "-n", "0", ...options);
    const share = (/** @type {number} */ it) => percent(it / top.total_weight);
    const expected = top.rows.map((/** @type {any} */ it) => [share(it.self), share(it.total), amount(it.self, top.unit), it.name, short(it.image ?? "") || "–"]);
    const seen = await rows(grid(page, "Functions"));
    assert.deepEqual(seen.map(String).sort(), expected.map(String).sort());
    assert.ok(seen.length > 0);
  }));
}

/** @param {Page} page @param {string} label */
function grid(page, label) {
  return page.locator(`[aria-label="${label}"][aria-rowcount]`);
}

test("functions are ordered by the column that is chosen", () => on(BUSY, "view=functions", async (page) => {
  const numbers = async (/** @type {number} */ column) => (await rows(grid(page, "Functions"))).map((it) => parseFloat(it[column]));
  const descends = (/** @type {number[]} */ all) => assert.deepEqual(all, [...all].sort((a, b) => b - a));
  descends(await numbers(0));
  await page.locator("[role=columnheader]", { hasText: "total" }).first().click();
  descends(await numbers(1));
  await page.locator("[role=columnheader]", { hasText: "function" }).first().click();
  const names = (await rows(grid(page, "Functions"))).map((it) => it[3]);
  assert.deepEqual(names, [...names].sort());
}));

test("around a function: who calls it and what it calls add up to its total", () => on(BUSY, "view=functions&sort=total", async (page) => {
  await page.locator("[aria-label=Functions] .body [role=row]", { hasText: "even" }).click();
  const top = json("top", recording("busy"), "--by", "inlined", "-n", "0");
  const even = top.rows.find((/** @type {any} */ it) => it.name === "even"), share = percent(even.total / top.total_weight);
  for (const label of ["Callers", "Callees"]) {
    const [first] = await rows(grid(page, label));
    assert.equal(first[0], share, label);
  }
  const callers = (await rows(grid(page, "Callers"))).map((it) => it[3].replace(/[▾▸\s]/g, ""));
  // Outermost calls come from main, and from odd where that was called first.
  assert.deepEqual(callers.slice(0, 1), ["even"]);
  assert.ok(callers.includes("main"), String(callers));
}));

test("the list of functions shows what a search finds", () => on(BUSY, "view=functions&search=EV", async (page) => {
  assert.deepEqual((await rows(grid(page, "Functions"))).map((it) => it[3]), ["even"]);
}));

/** @param {any} node @param {number} whole @returns {string[]} names and shares, as the page shows them */
function lines(node, whole) {
  return [`${node.name} ${percent(node.total / whole)}`, ...node.children.flatMap((/** @type {any} */ it) => lines(it, whole))];
}

for (const [title, fragment, options] of [
  ["root first", "view=tree", []],
  ["leaf first", "view=tree&inverted=true&root=none", ["--callers"]],
]) {
  test(`the tree, ${title}, has the lines of tree`, () => on(BUSY, String(fragment), async (page) => {
    const label = grid(page, "Call tree");
    await label.focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("*");
    await settled(page);
    const tree = json("tree", recording("busy"), "--min-percent", "0", ...options);
    const expected = tree.children.flatMap((/** @type {any} */ it) => lines(it, tree.total_weight));
    const seen = (await rows(label)).slice(1).map((it) => `${it[3].replace(/^[\s▾▸]*(\d+ )?/, "")} ${it[0]}`);
    assert.deepEqual(seen.sort(), expected.sort());
  }));
}

test("a key moves by one line, and a branch that was closed stays closed when a filter changes", () => on(BUSY, "view=tree&root=none", async (page) => {
  const label = grid(page, "Call tree");
  await label.focus();
  for (const key of ["Home", "ArrowDown", "ArrowLeft"]) await page.keyboard.press(key);
  await settled(page);
  assert.equal(await label.locator("[aria-selected=true]").getAttribute("data-row"), "1");
  const [, closed] = await rows(label);
  assert.match(closed[3], /▸/);
  await page.evaluate(() => { location.hash = "view=tree&root=none&process=9"; });
  await settled(page);
  const now = await rows(label);
  assert.notEqual(now[0][2], "", "everything");
  assert.equal(now.find((it) => it[3].includes(closed[3].replace(/[\s▸]/g, "")))?.[3], closed[3], String(now));
}));

test("two recordings: the changes are those of diff, and the sides can be exchanged", () => on(write(["before", "after"]), "view=compare", async (page) => {
  const diff = json("diff", recording("before"), recording("after"), "--all");
  const verdict = (/** @type {any} */ row) => !row.self.tested ? "not tested" : row.self.significant ? row.status : "chance";
  const expected = diff.rows.map((/** @type {any} */ row) => {
    const name = row.before_name ? `${row.name} (was ${row.before_name})` : row.name;
    return [percent(row.self.before), percent(row.self.after), verdict(row), name];
  });
  const seen = (await rows(grid(page, "Changes of functions"))).map((it) => [it[0], it[1], it[4], it[5]]);
  assert.deepEqual(seen.sort(), expected.sort());
  assert.ok(seen.some(([, , judged, name]) => name === "slow" && judged !== "chance"));
  const [before, after] = ["before", "after"].map((name) => json("top", recording(name)).total_samples);
  for (const [side, samples] of [["0", before], ["1", after], ["0", before]]) {
    await page.locator("[data-field=side]").selectOption(side);
    assert.match(await foot(page), new RegExp(`${samples.toLocaleString("en-US")} samples`));
  }
}));

test("images as frames have the names of images, and only what images can do", () => on(BUSY, "view=functions&merge=image&root=none", async (page) => {
  const top = json("top", recording("busy"), "--by", "image", "-n", "0"), seen = await rows(grid(page, "Functions"));
  const share = (/** @type {number} */ it) => percent(it / top.total_weight);
  const expected = top.rows.map((/** @type {any} */ it) => [share(it.self), share(it.total), amount(it.self, top.unit), short(it.name)]);
  assert.deepEqual(seen.map((it) => it.slice(0, 4)).map(String).sort(), expected.map(String).sort());
  await page.locator("[aria-label=Functions] .body [role=row]").first().click();
  await page.keyboard.press("f");
  assert.equal(fragment(page).get("focus"), null);
  assert.deepEqual(await page.locator("aside button").allTextContents(), [`only ${seen[0][3]}`]);
}));

test("what a function calls has the same figures after a filter as in a page that is opened with it", () => on(BUSY, "view=functions", async (page) => {
  await page.locator("[aria-label=Functions] .body [role=row]", { hasText: "main" }).first().click();
  await page.locator("[data-field=process]").selectOption("9");
  const after = await rows(grid(page, "Callees")), fresh = page.url().split("#")[1];
  await on(BUSY, fresh, async (other) => assert.deepEqual(after, await rows(grid(other, "Callees"))));
  assert.ok(after.slice(1).some((it) => it[1] !== "0.00%"), String(after));
}));
