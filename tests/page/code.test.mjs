// Source lines and instructions: those of `annotate`, with its samples, in a page from disk and in one that is served.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { dirname } from "node:path";
import { test } from "node:test";
import assert from "node:assert/strict";
import { browser } from "./browser.mjs";
import { REPORT, fragment, json, on, read, recording, rows, settled, write } from "./harness.mjs";
import { percent } from "../../crates/page/browser/text.js";

/** @import {Page} from "playwright-core" */

/** The folder of the program and its source. */
const FOLDER = dirname(json("top", recording("code"), "--by", "image").rows[0].name);
const CODE = write("code", "--source-dir", FOLDER);

/** @param {Page} page @param {string} label */
function grid(page, label) {
  return page.locator(`[aria-label="${label}"][aria-rowcount]`);
}

/** The functions of a page by name. @param {string} path @param {string} name */
function labelOf(path, name) {
  return read(path).functions.findIndex((it) => it.name === name);
}

/** Checks the lines and instructions that a page shows. @param {Page} page @param {string} name @param {...string} options of `annotate` */
async function compare(page, name, ...options) {
  const annotated = json("annotate", recording("code"), name, "--source-dir", FOLDER, ...options);
  const share = (/** @type {number} */ it) => it ? percent(it / annotated.total_weight) : "";
  const code = annotated.code.flatMap((/** @type {any} */ part) => part.instructions);
  const expected = code.map((/** @type {any} */ it) => [share(it.self), it.address.toString(16), it.text]);
  const seen = (await rows(grid(page, "Instructions"))).filter((it) => it[1]).map(([own, at, text]) => [own, at, text.replace(/ +<.*| +#.*/, "")]);
  assert.deepEqual(seen, expected);
  const lines = (await rows(grid(page, "Source lines"))).filter((it) => it[2]);
  const texts = annotated.sources.flatMap((/** @type {any} */ source) => source.lines);
  assert.deepEqual(lines.map((it) => it.slice(1)), texts.map((/** @type {any} */ it) => [share(it.total), String(it.line), it.text]));
  assert.ok(seen.some((it) => it[0] || options.length) && lines.length > 0);
}

for (const [filter, options] of /** @type {[string, string[]][]} */ ([["", []], ["to=0.000035", ["--to", "0.000035"]], ["focus=leaf", ["--focus", "^leaf$"]]])) {
  for (const name of ["leaf", "caller", "inlined"]) {
    test(`the code of ${name} is that of annotate: ${filter || "everything"}`, () => on(CODE, `view=code&selected=${labelOf(CODE, name)}&${filter}`, (page) => compare(page, name, ...options)));
  }
}

test("a line that is chosen marks its instructions, and an instruction its line", () => on(CODE, `view=code&selected=${labelOf(CODE, "caller")}`, async (page) => {
  const marked = (/** @type {string} */ label) => grid(page, label).locator(".marked").count();
  assert.equal(await marked("Instructions"), 0);
  await grid(page, "Source lines").locator(".body [role=row]", { hasText: "inlined(x) + 2" }).click();
  assert.match(fragment(page).get("line") ?? "", /^6 .*p\.c$/);
  assert.ok(await marked("Instructions") > 0);
  await grid(page, "Instructions").locator(".body [role=row]", { hasText: "ret" }).click();
  assert.match(fragment(page).get("line") ?? "", /^7 /);
  assert.equal(await marked("Source lines"), 1);
  await page.keyboard.press("u");
  await settled(page);
  assert.match(fragment(page).get("line") ?? "", /^6 /);
}));

test("by samples the code has counts", () => on(CODE, `view=code&selected=${labelOf(CODE, "leaf")}&metric=samples`, async (page) => {
  const [first] = (await rows(grid(page, "Instructions"))).filter((it) => it[1]);
  assert.equal(first[0], "4");
  assert.equal(await page.locator("aside h2").textContent(), "leaf", "the function stands beside");
}));

test("a page that may be given away has no text that nothing proves, unless its folder is named", () => on(write("code"), "view=code", async (page) => {
  const titles = (await rows(grid(page, "Source lines"))).filter((it) => !it[2]).map((it) => it[3]);
  assert.match(titles.join(), /p\.c · no text: .*--source-dir/);
  const [source] = read(write("code")).sides[0].listings.values().next().value?.sources ?? [];
  assert.deepEqual(source?.lines, []);
  assert.ok(read(CODE).sides[0].listings.values().next().value?.sources[0].lines.length);
}));

test("a page says of which functions it has the code", () => on(write("code", "--code", "1"), `view=code&selected=${labelOf(CODE, "caller")}`, async (page) => {
  assert.match(await page.locator("#main h4").first().textContent() ?? "", /caller .*of the 1 hottest function: .*--code N/);
  assert.deepEqual(await rows(grid(page, "Instructions")), []);
}));

test("a page that is served asks for the code that it shows", async () => {
  const { HOME, XDG_CACHE_HOME, ...env } = process.env;
  const server = spawn(REPORT, ["serve", recording("code"), "--json", "--quiet", "--source-dir", FOLDER], { env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    let text = "";
    for await (const line of createInterface({ input: server.stdout })) {
      text += line;
      if (line === "}") break;
    }
    const { page: url } = JSON.parse(text);
    const page = await (await browser()).newPage({ viewport: { width: 1400, height: 850 } });
    /** @type {string[]} */
    const asked = [], troubles = [];
    page.on("request", (request) => asked.push(request.url().replace(url, "/").replace(/#.*/, "")));
    page.on("console", (message) => troubles.push(message.text()));
    page.on("pageerror", (error) => troubles.push(String(error.stack)));
    const label = labelOf(CODE, "caller");
    await page.goto(`${url}#view=code&selected=${label}`);
    await page.waitForFunction(() => document.querySelectorAll("[aria-label=Instructions] .body [role=row]").length > 3);
    await compare(page, "caller");
    assert.deepEqual(asked, ["/", `/code?side=0&function=${label}`]);
    assert.deepEqual(troubles, []);
    await page.close();
  } finally {
    server.kill("SIGINT");
  }
  const code = await new Promise((done) => server.on("exit", done));
  assert.equal(code, 0);
});
