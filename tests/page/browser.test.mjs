// What a browser shows and does: loading, the flame graph, filters, search, undo, hostile names.

import { test } from "node:test";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import { browser } from "./browser.mjs";
import { changed, foot, fragment, json, on, read, recording, rows, settled, show, write } from "./harness.mjs";
import { percent } from "../../crates/page/browser/text.js";

/** @import {Page} from "playwright-core" */

const BUSY = write("busy");
/** The height of a row of the flame graph, px. */
const ROW = 18;

/** @param {Page} page @param {number} x share of the width @param {number} row */
async function clickFrame(page, x, row) {
  const box = await page.locator("#main canvas").boundingBox();
  assert.ok(box);
  await page.mouse.click(box.x + box.width * x, box.y + ROW * (row + 0.5));
  // The graph moves for a moment.
  await page.waitForTimeout(250);
}

/** @param {Page} page @param {...string} keys */
async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
  await settled(page);
}

/** @param {Page} page */
function title(page) {
  return page.locator("aside h2").textContent();
}

test("a page loads, asks for nothing, and says what it shows", () => on(BUSY, "", async (page) => {
  const { total_samples } = json("top", recording("busy"));
  assert.match(await foot(page), new RegExp(`^100% is .*${total_samples} samples`));
  assert.match(await page.locator("#head").textContent() ?? "", /station.*no sample lost/);
  assert.equal(await page.locator("[data-view][aria-selected=true]").textContent(), "Flame graph");
}));

test("the page runs no script but its own, and reaches nothing", async () => {
  const { page, troubles } = await show(BUSY);
  assert.deepEqual(troubles, []);
  const reached = await page.evaluate(async () => {
    const made = (/** @type {string} */ html) => { document.body.insertAdjacentHTML("beforeend", html); };
    const script = document.createElement("script");
    script.textContent = "window.ran = 1";
    document.body.append(script);
    made("<img src=x onerror='window.ran = 2'><a id=link href='javascript:window.ran = 3'>x</a><form action='https://example.invalid/'></form>");
    document.getElementById("link")?.click();
    const style = document.createElement("style");
    style.textContent = "body { outline: 7px solid red }";
    document.body.append(style);
    await new Promise((done) => setTimeout(done, 100));
    const fetched = await fetch("https://example.invalid/").then(() => "fetched", (error) => error.name);
    const evaluated = (() => { try { return new Function("return 1")(); } catch (error) { return /** @type {Error} */ (error).name; } })();
    return { ran: /** @type {any} */ (window).ran, fetched, evaluated, outline: getComputedStyle(document.body).outlineWidth };
  });
  assert.deepEqual([reached.ran, reached.fetched, reached.evaluated], [undefined, "TypeError", "EvalError"]);
  assert.notEqual(reached.outline, "7px");
  assert.ok(troubles.some((it) => it.includes("Content Security Policy")), troubles.join("\n"));
  assert.ok(!troubles.some((it) => it.startsWith("request") && it.includes("example")), troubles.join("\n"));
  await page.context().close();
});

test("a click zooms to a frame, shows it beside the graph, and back leads out", () => on(BUSY, "order=weight", async (page) => {
  const top = json("top", recording("busy"), "--by", "process"), heaviest = top.rows[0];
  await clickFrame(page, 0.1, 1);
  assert.equal(await title(page), heaviest.name ?? heaviest.comm);
  assert.match(await page.locator("aside").textContent() ?? "", new RegExp(`total ${percent(heaviest.total / top.total_weight).replace(".", "\\.")}`));
  await clickFrame(page, 0.5, 2);
  assert.equal(await title(page), "main");
  assert.equal(fragment(page).get("zoom")?.split(".").length, 2);
  await page.goBack();
  assert.equal(fragment(page).get("zoom")?.split(".").length, 1);
  await press(page, "u");
  await page.waitForFunction(() => !location.hash.includes("zoom"));
}));

test("the keyboard moves between frames, and the foot says where it is", () => on(BUSY, "", async (page) => {
  await page.locator("#main canvas").focus();
  await press(page, "ArrowDown", "ArrowDown");
  assert.match(await foot(page), /main · .*%/);
  const name = await title(page);
  await press(page, "ArrowDown");
  assert.notEqual(await title(page), name);
  await press(page, "ArrowRight", "ArrowUp");
  assert.equal(await title(page), "main");
  await press(page, "Enter");
  assert.ok(fragment(page).has("zoom"));
  await press(page, "Escape");
  assert.ok(!fragment(page).has("zoom"));
}));

test("the share that a search finds is the one that --focus leaves", () => on(BUSY, "", async (page) => {
  const all = json("top", recording("busy")).total_weight;
  await page.keyboard.press("/");
  await page.keyboard.type("EVEN");
  const found = json("top", recording("busy"), "--focus", "even").total_weight;
  assert.equal(await page.locator("#found").textContent(), `${percent(found / all)} of everything`);
  await page.locator("#find").fill("/^(work|odd)$/");
  const both = json("top", recording("busy"), "--focus", "^(work|odd)$").total_weight;
  assert.equal(await page.locator("#found").textContent(), `${percent(both / all)} of everything`);
  await page.locator("#find").fill("/(/");
  assert.match(await page.locator("#found").textContent() ?? "", /^wrong expression: /);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#found").textContent(), "");
}));

test("filters are chips that can be removed, and keys of a frame set them", () => on(BUSY, "", async (page) => {
  await page.locator("#main canvas").focus();
  await press(page, "ArrowDown", "ArrowDown", "ArrowDown");
  const name = await title(page) ?? "";
  const { total_samples } = json("top", recording("busy"), "--focus", `^${name}$`);
  await press(page, "f");
  assert.match(await foot(page), new RegExp(`(is|in) ${total_samples} samples of `));
  assert.deepEqual(await page.locator(".chip").allTextContents(), [`focus ${name} ✕`]);
  await page.locator(".chip").click();
  assert.deepEqual(await page.locator(".chip").allTextContents(), []);
  assert.doesNotMatch(await foot(page), / of /);
  await page.locator("[data-field=process]").selectOption("9");
  const server = json("top", recording("busy"), "--pid", "9");
  assert.match(await foot(page), new RegExp(`(is|in) ${server.total_samples} samples of `));
  await page.locator("[data-field=event]").selectOption("off-cpu");
  assert.match(await foot(page), /^100% is .* in 0 samples|^100% is 0/);
  await press(page, "r");
  assert.ok(!fragment(page).has("process") && !fragment(page).has("event"));
}));

test("processes of one name are chosen together", async () => {
  const named = changed(BUSY, (document) => document.sides[0].threads.forEach((/** @type {any} */ it) => { if (it.tgid) it.process = "server"; }));
  await on(named, "", async (page) => {
    const select = page.locator("[data-field=process]"), labels = await select.locator("option").allTextContents();
    assert.ok(labels.includes("2 × server"), labels.join(", "));
    await select.selectOption({ label: "2 × server" });
    assert.deepEqual(fragment(page).getAll("process").sort(), ["7", "9"]);
    assert.equal(await select.locator("option:checked").textContent(), "2 × server");
    const { total_samples } = json("top", recording("busy"), "--pid", "7,9");
    assert.match(await foot(page), new RegExp(`(is|in) ${total_samples} samples`));
  });
});

test("a fragment restores everything, and a wrong one breaks nothing", async () => {
  const options = ["--pid", "9", "--from", "0.1", "--to", "0.4", "--focus", "^odd$"];
  const { total_samples } = json("top", recording("busy"), ...options);
  await on(BUSY, "process=9&from=0.1&to=0.4&focus=odd&inverted=true&theme=dark", async (page) => {
    assert.match(await foot(page), new RegExp(`(is|in) ${total_samples} samples of `));
    assert.equal(await page.locator("[data-field=inverted]").isChecked(), true);
    assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  });
});

test("no fragment makes a page fail, whatever it says", () => on(BUSY, "", async (page) => {
  const views = await page.locator("[data-view]").evaluateAll((all) => all.map((it) => it.getAttribute("data-view")));
  const words = ["__proto__", "constructor", "%00%e2%80%ae"], numbers = ["-7", "0.5", "999999", "1e999"];
  /** @param {string[]} values @param {string[]} fields */
  const all = (values, fields) => views.flatMap((view) => fields.flatMap((field) => values.map((value) => `view=${view}&${field}=${value}`)));
  const fragments = [
    ...all(words, ["view", "metric", "order", "up", "root", "color", "process", "image", "focus", "hide", "merge", "search", "zoom", "sort", "theme"]),
    ...all(numbers, ["side", "from", "to", "zoom", "selected", "lane"]),
  ];
  await page.evaluate(async (fragments) => {
    for (const fragment of fragments) {
      const arrived = new Promise((done) => window.addEventListener("hashchange", done, { once: true }));
      location.hash = fragment;
      await arrived;
    }
  }, fragments.filter((it) => !it.startsWith("view=flame&view=")));
}));

test("light and dark follow the system until one is chosen", async () => {
  const back = (/** @type {Page} */ page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = "rgb(255, 255, 255)";
  await on(BUSY, "", async (page) => {
    const dark = await back(page);
    assert.notEqual(dark, light);
    await page.emulateMedia({ colorScheme: "light" });
    assert.equal(await back(page), light);
    await page.getByRole("button", { name: "dark", exact: true }).click();
    assert.equal(await back(page), dark);
    await press(page, "d");
    assert.equal(await back(page), light);
  }, { colorScheme: "dark" });
});

test("12,000 frames deep: drawn, walked and shown to the end", () => on(write("deep"), "", async (page) => {
  await page.locator("#main canvas").focus();
  await press(page, ...Array(40).fill("ArrowDown"));
  assert.match(await title(page) ?? "", /^level\d\d$/);
  await page.locator("#main .scroll").evaluate((it) => { it.scrollTop = it.scrollHeight; });
  // The deeper stack is one half of the width.
  for (const x of [0.25, 0.75]) await clickFrame(page, x, 20);
  const zoom = fragment(page).get("zoom") ?? "";
  assert.ok(zoom.split(".").length > 6_000, `${zoom.split(".").length} frames`);
  for (const view of ["functions", "tree"]) {
    await page.evaluate((view) => { location.hash = `view=${view}`; }, view);
    await settled(page);
  }
}));

test("frames that are too narrow are counted, and the table has them all", () => on(write("wide"), "", async (page) => {
  // Half of the width is one of 5,000 callees; each other is less than half a pixel wide.
  assert.match(await foot(page), /4,999 frames narrower than half a pixel/);
  await page.locator("#main canvas").focus();
  await press(page, "ArrowDown", "ArrowDown");
  assert.equal(await title(page), "main");
  const table = page.locator("aside [role=grid]");
  assert.equal(await table.getAttribute("aria-rowcount"), "5001");
  assert.equal(await table.locator("[data-row='0']").innerText(), "50.0%\n50.0%\ncallee0001");
  await table.focus();
  await press(page, "End");
  assert.equal(await table.locator("[data-row='4999']").innerText(), "0.01%\n0.01%\ncallee5000");
  await clickFrame(page, 0.9, 3);
  assert.equal(await title(page), "main");
  await page.locator("[data-view=functions]").click();
  assert.doesNotMatch(await foot(page), /narrower/);
}));

test("hostile names are text", () => on(write("hostile"), "root=none", async (page) => {
  const names = read(write("hostile")).functions.map((it) => it.name);
  assert.ok(names.includes("__proto__") && names.includes("constructor") && names.some((it) => it.length > 4_000), names.join("\n").slice(0, 2000));
  await page.locator("#main canvas").focus();
  const grid = page.locator("aside [role=grid]");
  for (const row of await rows(grid)) assert.ok(names.includes(row[2]), row[2]);
  for (const name of names) {
    for (const field of ["focus", "without", "hide", "search"]) {
      await page.evaluate((hash) => { location.hash = hash; }, new URLSearchParams([["root", "process"], [field, name]]).toString());
      await settled(page);
      const chips = await page.locator(".chip").allTextContents();
      if (field !== "search") assert.deepEqual(chips, [`${field === "without" ? "exclude" : field} ${name} ✕`]);
    }
  }
  for (const view of ["flame", "functions", "tree", "chart", "time", "heat", "code"]) {
    await page.evaluate((view) => { location.hash = `view=${view}`; }, view);
    await settled(page);
  }
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("script").count(), 1);
}));

test("a page of more samples than it can hold says so", async () => {
  const rounded = changed(BUSY, (document) => { document.sides[0].is_rounded = true; });
  await on(rounded, "", async (page) => {
    await page.locator("#head summary").click();
    assert.match(await page.locator("#head").innerText(), /More than 10 million samples: neighbours with one stack were added up/);
  });
});

test("a page that cannot be read says so", async () => {
  const broken = changed(BUSY, (document) => { delete document.sides[0].columns.row_stack; });
  const page = await (await browser()).newPage();
  await page.goto(pathToFileURL(broken).href);
  await page.getByText("This page cannot be shown").waitFor();
  await page.close();
});
