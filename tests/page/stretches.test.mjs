// The views of time: what is chosen in them leaves the samples that --from and --to leave.

import { test } from "node:test";
import assert from "node:assert/strict";
import { foot, fragment, json, on, recording, settled, write } from "./harness.mjs";

/** @import {Page} from "playwright-core" */

const BUSY = write("busy");

/** Fails unless the page shows what the command line prints for the stretch in its address. @param {Page} page @param {string} [name] @param {number} [after] */
async function assertStretch(page, name = "busy", after = 0) {
  const [from, to] = ["from", "to"].map((end) => fragment(page).get(end));
  assert.ok(from !== null || to !== null, page.url());
  const option = (/** @type {string} */ end, /** @type {string?} */ at) => at === null ? [] : [`--${end}`, `${(Number(at) + after).toFixed(6)}`];
  const top = json("top", recording(name), ...option("from", from), ...option("to", to));
  assert.match(await foot(page), new RegExp(`(is|in) ${top.total_samples.toLocaleString("en-US")} samples of `), page.url());
  assert.equal(await page.locator(".chip").count(), 1);
}

/** @param {Page} page @param {string} selector @param {[number, number]} from shares of width and height @param {[number, number]} to */
async function drag(page, selector, from, to) {
  const box = await page.locator(selector).boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width * from[0], box.y + box.height * from[1]);
  await page.mouse.down();
  for (const part of [0.3, 0.6, 1]) {
    await page.mouse.move(box.x + box.width * (from[0] + (to[0] - from[0]) * part), box.y + box.height * (from[1] + (to[1] - from[1]) * part));
  }
  await page.mouse.up();
  await page.waitForFunction(() => /from=|to=/.test(location.hash));
  await settled(page);
}

test("a drag over the strip filters everything, and back undoes it in one step", () => on(BUSY, "", async (page) => {
  await drag(page, "#overview canvas", [0.1, 0.5], [0.22, 0.5]);
  await assertStretch(page);
  await drag(page, "#overview canvas", [0.15, 0.5], [0.2, 0.5]);
  await assertStretch(page);
  await page.goBack();
  await assertStretch(page);
  await page.goBack();
  assert.doesNotMatch(await foot(page), / of /);
}));

test("the strip moves by the keyboard, and says where it is", () => on(BUSY, "view=functions", async (page) => {
  const strip = page.locator("#overview canvas");
  assert.match(await strip.getAttribute("aria-valuetext") ?? "", /^all /);
  await strip.focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Shift+ArrowRight");
  await page.waitForFunction(() => location.hash.includes("to="));
  await page.waitForTimeout(200);
  await assertStretch(page);
  assert.match(await strip.getAttribute("aria-valuetext") ?? "", / s to .* s$/);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !/from=|to=/.test(location.hash));
  assert.doesNotMatch(await foot(page), / of /);
}));

test("times of a part of a recording are those of the recording", () => on(write("busy", "--from", "0.3"), "", async (page) => {
  await drag(page, "#overview canvas", [0.1, 0.5], [0.3, 0.5]);
  const [from, to] = ["from", "to"].map((end) => Number(fragment(page).get(end)) + 0.3);
  assert.equal(await page.locator(".chip").textContent(), `time ${from.toFixed(3)} s to ${to.toFixed(3)} s ✕`);
  await assertStretch(page, "busy", 0.3);
}));

test("a drag over threads, over a chart and over seconds chooses a stretch", async () => {
  for (const view of ["time", "chart"]) {
    await on(BUSY, `view=${view}`, async (page) => {
      await drag(page, "#main canvas", [0.4, 0.2], [0.5, 0.2]);
      await assertStretch(page);
    });
  }
  await on(BUSY, "view=heat", async (page) => {
    const box = await page.locator("#main .scroll > canvas").boundingBox();
    assert.ok(box);
    // Seconds are columns behind the names of rows.
    const x = 75 / box.width;
    await drag(page, "#main .scroll > canvas", [x, 0.9], [x, 0.6]);
    await assertStretch(page);
  });
});

test("every thread has a track, and says how much it did and waited", () => on(BUSY, "view=time", async (page) => {
  await page.locator("#main canvas").focus();
  const threads = json("top", recording("busy"), "--by", "thread", "-n", "0").rows.map((/** @type {any} */ it) => it.tid);
  const said = new Set();
  await page.keyboard.press("Home");
  for (let track = 0; track < 30; track++) {
    said.add((await foot(page)).split(" · ").slice(1).join(" · "));
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
  }
  for (const tid of threads) assert.ok([...said].some((it) => new RegExp(`\\b${tid}\\b`).test(it)), `${tid}: ${[...said].join("\n")}`);
}));

test("a track that is chosen filters by its process", () => on(BUSY, "view=time", async (page) => {
  await page.locator("#main canvas").focus();
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  const process = fragment(page).get("process") ?? fragment(page).get("thread")?.split("/")[0];
  assert.ok(process, page.url());
  const top = json("top", recording("busy"), "--pid", process);
  assert.match(await foot(page), new RegExp(`(is|in) ${top.total_samples} samples of `));
}));

test("a cell of the heat map has what top prints for its time", () => on(BUSY, "view=heat&event=cpu-clock", async (page) => {
  await page.locator("#main .scroll > canvas").focus();
  for (const key of ["ArrowUp", "ArrowUp", "ArrowUp"]) await page.keyboard.press(key);
  const said = /([\d.]+) s to ([\d.]+) s: (.*)$/.exec(await foot(page));
  assert.ok(said, await foot(page));
  const top = json("top", recording("busy"), "--event", "cpu-clock", "--from", said[1], "--to", said[2]);
  assert.equal(said[3], `${(top.total_weight / 1e6).toFixed(1)} ms`);
  await page.keyboard.press("Enter");
  await settled(page);
  assert.deepEqual([Number(fragment(page).get("from")), Number(fragment(page).get("to"))], [Number(said[1]), Number(said[2])]);
  // Of how many is not said: those are samples of other events, too.
  assert.match(await foot(page), new RegExp(`in ${top.total_samples} samples( ·|$)`));
}));

test("the chart draws all samples of a thread, and its keys name frames", () => on(BUSY, "view=chart&event=cpu-clock", async (page) => {
  const [heaviest] = json("top", recording("busy"), "--by", "thread", "--event", "cpu-clock").rows;
  const options = await page.locator("[data-field=lane] option").allTextContents();
  assert.match(options[0], new RegExp(`${heaviest.comm} .*${heaviest.tid}`));
  await page.locator("#main .scroll > canvas").focus();
  await page.keyboard.press("ArrowDown");
  await settled(page);
  await page.keyboard.press("ArrowDown");
  assert.match(await foot(page), /(main|work|read|entry_SYSCALL_64).* s to /);
  await page.keyboard.press("n");
  assert.equal(Number(fragment(page).get("lane")) >= 0, true);
}));

test("tracks have the shares of what is chosen", () => on(BUSY, "view=time&process=9&event=cpu-clock", async (page) => {
  await page.locator("#main .scroll > canvas").focus();
  /** @type {Map<string, string>} */
  const shares = new Map();
  await page.keyboard.press("Home");
  for (let i = 0; i < 40; i++) {
    const [, process, share] = /(\w+ \d+) · [^·]*thread[^·]* · ([\d.]+%) of the chosen samples/.exec(await foot(page)) ?? [];
    if (process) shares.set(process, share);
    await page.keyboard.press("ArrowDown");
  }
  assert.equal(shares.get("server 9"), "100.0%");
  shares.delete("server 9");
  assert.ok(shares.size > 0 && [...shares.values()].every((share) => share === "0.00%"), JSON.stringify([...shares]));
}));

test("keys begin at the thread that was chosen", () => on(BUSY, "view=time&thread=7%2F8", async (page) => {
  await page.locator("#main .scroll > canvas").focus();
  await page.keyboard.press("n");
  assert.match(await foot(page), /waits: \w+ · [\d.]+ \w+ until/);
}));

test("where nobody sampled, every view of time says so", async () => {
  /** What the tip says at a share of the width. @param {Page} page @param {string} selector @param {number} at @param {number} y px */
  const tipAt = async (page, selector, at, y) => {
    const box = await page.locator(selector).boundingBox();
    assert.ok(box);
    const left = selector.startsWith("#overview") ? 0 : Math.min(280, Math.max(120, box.width * 0.28));
    await page.mouse.move(box.x + left + (box.width - left) * at, box.y + y);
    return page.locator("#tip").innerText();
  };
  const file = write("paused"), why = /nobody sampled: the recorder paused/;
  await on(file, "view=time", async (page) => {
    for (const [selector, y] of /** @type {const} */ ([["#overview canvas", 30], ["#main .scroll > canvas", 30]])) {
      for (const at of [0.5, 0.95]) assert.match(await tipAt(page, selector, at, y), why, `${selector} ${at}`);
      assert.doesNotMatch(await tipAt(page, selector, 0.1, y), why, selector);
    }
  });
  await on(file, "view=chart", async (page) => {
    const canvas = page.locator("#main .scroll > canvas"), box = await canvas.boundingBox();
    assert.ok(box);
    await page.mouse.move(box.x + box.width / 2, box.y + 40);
    assert.match(await page.locator("#tip").innerText(), why);
  });
  await on(file, "view=heat", async (page) => {
    assert.match(await page.locator("#main").innerText(), /in grey ones nobody sampled/);
    await page.locator("#main .scroll > canvas").focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await foot(page), why);
  });
  await on(BUSY, "view=heat", async (page) => assert.doesNotMatch(await page.locator("#main").innerText(), /nobody sampled/));
});
