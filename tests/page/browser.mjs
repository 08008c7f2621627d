// The browser of this machine, driven by the packages that tests/tests/page/main.rs installs.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** @import {Browser} from "playwright-core" */

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const PACKAGES = process.env.ICECORE_PAGE_PACKAGES ?? join(ROOT, "target/tmp/packages");

/** @returns {string} */
function path() {
  const names = ["chromium", "google-chrome", "google-chrome-stable", "chrome", "chromium-browser"];
  const folders = (process.env.PATH ?? "").split(delimiter);
  const paths = [process.env.ICECORE_BROWSER ?? "", ...names.flatMap((name) => folders.map((it) => join(it, name)))];
  const found = paths.find((it) => it && existsSync(it));
  if (!found) throw new Error(`there is no browser here: none of ${names.join(", ")} is in PATH. Run tests/setup.sh, or name one by ICECORE_BROWSER`);
  return found;
}

/** @type {Promise<Browser> | undefined} */
let launched;

/** Starts the browser, once. @returns {Promise<Browser>} */
export function browser() {
  launched ??= (async () => {
    const packages = join(PACKAGES, "package.json");
    if (!existsSync(packages)) throw new Error(`there are no packages in ${PACKAGES}: cargo test -p icecore-tests --test page installs them`);
    const { chromium } = createRequire(packages)("playwright-core");
    return chromium.launch({ executablePath: path(), args: ["--no-sandbox"] });
  })();
  return launched;
}

/** Ends the browser, if it was started. */
export async function close() {
  await (await launched)?.close();
}
