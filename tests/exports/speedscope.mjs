// Loads a file in the page of speedscope, in a headless browser, and prints what the page then holds and shows.
//
//   node speedscope.mjs PACKAGES FOLDER FILE...
//
// PACKAGES is the folder with node_modules. FOLDER is an empty one, for the script by which the page loads a file.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [packages, folder, file] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), "package.json"));
const { chromium } = require("playwright-core");
const { version } = JSON.parse(readFileSync(join(packages, "node_modules/speedscope/package.json"), "utf8"));

// As speedscope's own command does it: the page runs this script, which has the file in it.
const script = join(resolve(folder), "load.js");
const call = [basename(file), readFileSync(file).toString("base64")].map((it) => JSON.stringify(it)).join(", ");
writeFileSync(script, `speedscope.loadFileFromBase64(${call})`);

/** Runs in the page: the components of the page hold the loaded profiles. */
function held() {
  const seen = new Set();
  /** @param {any} node @returns {any} */
  function search(node) {
    if (!node || typeof node !== "object" || seen.has(node)) return undefined;
    seen.add(node);
    const group = node.props?.profileGroup;
    if (group?.profiles) return group;
    for (const child of [node.__k].flat()) {
      const found = search(child);
      if (found) return found;
    }
    return undefined;
  }
  // The page is built by Preact: the root of its tree hangs at the element that it replaced.
  const roots = [document.body, ...document.querySelectorAll("body *")];
  const group = roots.map((/** @type {any} */ it) => search(it.__k)).find((it) => it);
  if (!group) return null;
  const profiles = group.profiles.map((/** @type {any} */ { profile }) => {
    /** @type {any[]} */
    const frames = [];
    profile.forEachFrame((/** @type {any} */ it) => {
      frames.push({ name: it.name, file: it.file, line: it.line, self: it.getSelfWeight(), total: it.getTotalWeight() });
    });
    return { name: profile.getName(), unit: profile.getWeightUnit(), total: profile.getTotalWeight(), frames };
  });
  return { name: group.name, active: group.indexToView, profiles };
}

/** Runs in the page: the rows of its table of functions, which draws only those in sight. */
function rows() {
  return [...document.querySelectorAll("table tr")].map((row) =>
    [...row.querySelectorAll("td, th")].map((cell) => cell.textContent?.trim() ?? ""));
}

const path = process.env.ICECORE_READ_BROWSER;
const browser = await chromium.launch({ executablePath: path, args: ["--no-sandbox", "--allow-file-access-from-files"] });
try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 1600 } });
  /** @type {string[]} */
  const said = [];
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("console", (message) => message.type() === "error" && said.push(message.text()));
  page.on("dialog", (dialog) => {
    said.push(dialog.message());
    void dialog.dismiss();
  });
  const index = pathToFileURL(join(resolve(packages), "node_modules/speedscope/dist/release/index.html"));
  index.hash = `localProfilePath=${encodeURIComponent(script.replace(/^\//, ""))}`;
  await page.goto(index.href);
  let found = null;
  for (const end = Date.now() + 60_000; !found && said.length === 0 && Date.now() < end; ) {
    await page.waitForTimeout(100);
    found = await page.evaluate(held);
  }
  if (!found) throw new Error(`the page shows no profile: ${said.join("; ") || (await page.innerText("body"))}`);
  const title = await page.title();
  await page.getByText("Sandwich", { exact: false }).last().click();
  await page.waitForSelector("table td", { state: "attached" });
  console.log(JSON.stringify({ version, title, browser: browser.version(), ...found, rows: await page.evaluate(rows), said }));
} finally {
  await browser.close();
}
