// What the tests share: the report, pages that it writes, their data, and a browser that shows them.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { after } from "node:test";
import assert from "node:assert/strict";

import { ROOT, browser, close } from "./browser.mjs";
import { open as openData } from "../../crates/page/browser/data.js";
import { START } from "../../crates/page/browser/state.js";
import { choose } from "../../crates/page/browser/choose.js";
import { Forest } from "../../crates/page/browser/forest.js";
import { Tree } from "../../crates/page/browser/tree.js";
import { sumsOf } from "../../crates/page/browser/sums.js";

/** @import {Page as Data} from "../../crates/page/browser/data.js" */
/** @import {State} from "../../crates/page/browser/state.js" */

/** The modules of the page. */
export const MODULES = join(ROOT, "crates/page/browser");
// tests/tests/page/main.rs says where these are; without it, they are where it left them.
const RECORDINGS = process.env.ICECORE_PAGE_RECORDINGS ?? join(ROOT, "target/tmp/page");
export const REPORT = process.env.ICECORE_REPORT ?? join(ROOT, "target/debug/icecore-report");

mkdirSync(RECORDINGS, { recursive: true });
/** A folder for the files of this run. */
export const folder = mkdtempSync(join(RECORDINGS, "run-"));
after(() => rmSync(folder, { recursive: true }));

/** @param {string} name @returns {string} */
export function recording(name) {
  return join(RECORDINGS, `${name}.icecore`);
}

/** Runs the report without a cache. @param {...string} args @returns {string} */
export function report(...args) {
  const { HOME, XDG_CACHE_HOME, ...env } = process.env;
  return execFileSync(REPORT, ["--quiet", ...args], { encoding: "utf8", maxBuffer: 1 << 30, env });
}

/** @param {...string} args @returns {any} */
export function json(...args) {
  return JSON.parse(report(...args, "--json"));
}

/** Writes a page, and returns its path. @param {string | string[]} names of recordings @param {...string} options @returns {string} */
export function write(names, ...options) {
  const files = [names].flat().map(recording);
  const key = createHash("sha256").update(JSON.stringify([files, options])).digest("hex").slice(0, 16);
  const path = join(folder, `${key}.html`);
  if (!existsSync(path)) report("html", ...files, "-o", path, ...options);
  return path;
}

const DATA = /(<script type="application\/octet-stream" id="data">)([^<]*)(<)/;

/** The data of a page, as the page reads them. @param {string} path @returns {Data} */
export function read(path) {
  const bytes = gunzipSync(Buffer.from(found(readFileSync(path, "utf8"), DATA)[2], "base64"));
  return openData(/** @type {ArrayBuffer} */ (bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)));
}

/** The one script of a page. @param {string} path @returns {string} */
export function script(path) {
  return found(readFileSync(path, "utf8"), /<script type="module">([^]*)<\/script>/)[1];
}

/** Writes a copy of a page whose document was changed. @param {string} path @param {(document: any) => void} change @returns {string} */
export function changed(path, change) {
  const text = readFileSync(path, "utf8");
  const bytes = gunzipSync(Buffer.from(found(text, DATA)[2], "base64"));
  const length = bytes.readUInt32LE(0), document = JSON.parse(bytes.toString("utf8", 4, 4 + length));
  change(document);
  const json = Buffer.from(JSON.stringify(document)), head = Buffer.alloc(4);
  head.writeUInt32LE(json.length);
  const packed = gzipSync(Buffer.concat([head, json, bytes.subarray(4 + length)])).toString("base64");
  const made = path.replace(".html", ".changed.html");
  writeFileSync(made, text.replace(DATA, (_, begin, __, end) => begin + packed + end));
  return made;
}

/** @param {string} text @param {RegExp} pattern @returns {RegExpExecArray} */
function found(text, pattern) {
  const match = pattern.exec(text);
  assert.ok(match, `the page has ${pattern}`);
  return match;
}

/** What a page makes of a recording in some state. @param {Data} data @param {Partial<State>} [changes] */
export function model(data, changes = {}) {
  const state = { ...START, ...changes };
  const chosen = choose(data, data.sides[state.side], state), tree = new Tree(new Forest(data, state), chosen, state);
  return { data, state, chosen, tree, sums: sumsOf(tree) };
}

// --- a browser

after(close);

/**
 * Shows a page, and returns it with what it should not have done so far.
 * @param {string} path @param {string} [fragment] @param {import("playwright-core").BrowserContextOptions} [options]
 */
export async function show(path, fragment = "", options = {}) {
  const context = await (await browser()).newContext({ viewport: { width: 1400, height: 850 }, ...options });
  const page = await context.newPage(), url = pathToFileURL(path).href;
  /** @type {string[]} */
  const troubles = [];
  page.on("console", (message) => troubles.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => troubles.push(`error: ${error.stack}`));
  page.on("dialog", (dialog) => { troubles.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (request.url().split("#")[0] !== url) troubles.push(`request: ${request.url()}`); });
  await page.goto(url + (fragment && `#${fragment}`));
  await page.waitForFunction(() => document.documentElement.dataset.loaded, null, { timeout: 30_000 });
  return { page, troubles };
}

/**
 * Shows a page, runs a test on it, and fails if the page reported an error or asked for anything.
 * @param {string} path @param {string} fragment @param {(page: import("playwright-core").Page) => Promise<void>} test
 * @param {import("playwright-core").BrowserContextOptions} [options]
 */
export async function on(path, fragment, test, options) {
  const { page, troubles } = await show(path, fragment, options);
  try {
    await test(page);
    await settled(page);
    assert.deepEqual(troubles, []);
  } finally {
    await page.context().close();
  }
}

/** Waits until two pictures were drawn. @param {import("playwright-core").Page} page */
export async function settled(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** The text at the foot. @param {import("playwright-core").Page} page @returns {Promise<string>} */
export async function foot(page) {
  await settled(page);
  return await page.locator("#foot").textContent() ?? "";
}

/** The fragment of the address. @param {import("playwright-core").Page} page @returns {URLSearchParams} */
export function fragment(page) {
  return new URLSearchParams(new URL(page.url()).hash.slice(1));
}

/**
 * Reads all rows of a table by scrolling through it, as those out of sight are not in the document.
 * @param {import("playwright-core").Locator} grid @returns {Promise<string[][]>} the texts of its cells
 */
export async function rows(grid) {
  return grid.evaluate(async (element) => {
    const all = new Map(), count = Number(element.getAttribute("aria-rowcount")) - 1;
    for (let top = 0; all.size < count; top += element.clientHeight / 2) {
      if (top > element.scrollHeight) throw new Error(`only ${all.size} of ${count} rows can be seen`);
      element.scrollTop = top;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      for (const line of element.querySelectorAll(".body > [role=row]")) {
        all.set(Number(line.getAttribute("data-row")), [...line.querySelectorAll("[role=gridcell]")].map((cell) => cell.textContent ?? ""));
      }
    }
    return [...all.keys()].sort((a, b) => a - b).map((at) => all.get(at));
  });
}
