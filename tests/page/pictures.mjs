// Takes the pictures of README.md: pictures.mjs PAGE [FOLDER]
//
// PAGE is what `icecore-report html` wrote of a recording of a build or a server; the default of FOLDER is docs/.

import { statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ROOT, browser, close } from "./browser.mjs";

/** A repository is no place for large pictures, bytes. */
const MOST = 200 << 10;

/** Names and states. @type {[string, string][]} */
const PICTURES = [
  ["page-flame", "view=flame&theme=dark"],
  ["page-functions", "view=functions&sort=total&theme=light"],
  ["page-time", "view=time&theme=light"],
];

const [path, folder = join(ROOT, "docs")] = process.argv.slice(2);
if (!path) throw new Error("usage: pictures.mjs PAGE [FOLDER]");
const page = await (await browser()).newPage({ viewport: { width: 1200, height: 700 } });
await page.goto(pathToFileURL(path).href);
await page.waitForFunction(() => document.documentElement.dataset.loaded);
for (const [name, fragment] of PICTURES) {
  await page.evaluate((fragment) => { location.hash = fragment; }, fragment);
  const view = new URLSearchParams(fragment).get("view");
  if (!await page.locator(`[data-view=${view}][aria-selected=true]`).count()) throw new Error(`this page has no view \`${view}\``);
  // What moves has arrived.
  await page.waitForTimeout(500);
  const file = join(folder, `${name}.png`);
  await page.screenshot({ path: file });
  const { size } = statSync(file);
  console.log(`${file}: ${Math.round(size / 1024)} KiB`);
  if (size > MOST) throw new Error(`${file} is larger than ${MOST >> 10} KiB: choose a recording with fewer frames`);
}
await close();
