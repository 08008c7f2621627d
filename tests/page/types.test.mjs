// The types of the modules, of these tests, and of the one script that a page has.

import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import assert from "node:assert/strict";
import { PACKAGES } from "./browser.mjs";
import { MODULES, folder, script, write } from "./harness.mjs";

/** @param {string} project */
function check(project) {
  const out = spawnSync(process.execPath, [join(PACKAGES, "node_modules/typescript/bin/tsc"), "--project", project], { encoding: "utf8" });
  assert.equal(out.status, 0, `${out.stdout}${out.stderr}`);
}

test("the modules have right types", () => check(join(MODULES, "tsconfig.json")));

test("the one script of a page has right types, and no name twice", () => {
  const made = join(folder, "script");
  mkdirSync(made);
  // Types of other modules are those of the script itself here.
  const text = script(write("busy")).replace(/^\/\*\* @import .*\*\/$/gm, "").replace(/import\("\.\/\w+\.js"\)\./g, "");
  writeFileSync(join(made, "script.js"), `${text}\nexport {};\n`);
  const { compilerOptions } = JSON.parse(readFileSync(join(MODULES, "tsconfig.json"), "utf8"));
  writeFileSync(join(made, "tsconfig.json"), JSON.stringify({ compilerOptions: { ...compilerOptions, noUnusedLocals: false }, include: ["*.js"] }));
  check(made);
});
