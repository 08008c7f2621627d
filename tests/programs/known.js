// Functions of which each has known callers, in phases: `node known.js [SECONDS]`. `bottom` burns the time; `phase_rec` comes to it through 31 `rec`,
// `phase_again` through 11 `keyed` and 10 `again` with `map` of arrays between them. `node known.js SECONDS worker` does the same in two more threads.
"use strict";
const { Worker, isMainThread } = require("node:worker_threads");
const seconds = Number(process.argv[2] ?? 5);
let sink = 0;

function bottom() {
  let sum = 0;
  for (let i = 0; i < 20000; i++) sum = (sum + i * i) % 1000003;
  sink += sum;
}

function rec(n) { if (n === 0) bottom(); else rec(n - 1); return n; }
function phase_rec() { rec(30); }

function keyed(n) { if (n === 0) bottom(); else again(n); return n; }
function again(n) { return [n - 1].map(keyed); }
function phase_again() { keyed(10); }

function compared(a, b) { bottom(); return a - b; }
function phase_sort() { [3, 1, 2].sort(compared); }

function replaced(text) { bottom(); return text; }
function phase_sub() { "abc".replace(/[ab]/g, replaced); }

function* produced() { bottom(); yield 1; bottom(); }
function phase_yield() { for (const one of produced()) sink += one; }

class Made {
  constructor() { bottom(); }
  get value() { bottom(); return 1; }
  toString() { bottom(); return "made"; }
  static stat() { bottom(); }
}
function phase_class() { const made = new Made(); sink += made.value; sink += `${made}`.length; Made.stat(); }

function revived(key, value) { if (key === "a") bottom(); return value; }
function phase_json() { JSON.parse('{"a": 1}', revived); }

function phase_arrow() { const arrow = () => { bottom(); }; arrow(); }

// Two functions of one name.
const one = { same() { bottom(); } };
const other = { same() { bottom(); } };
function phase_same() { one.same(); other.same(); }

async function awaited() { bottom(); await null; bottom(); }
async function phase_async() { await awaited(); }

// Code that is made and thrown away; a function of one number calls that of the same number only.
const thrown_away = [];
function phase_made(n) {
  new Function("bottom", `function inner_${n}() { bottom(); } return function outer_${n}() { inner_${n}(); };`)(bottom)();
  thrown_away[n % 64] = new Array(5000).fill(n);
}

function steady() {
  const end = Date.now() + 1000 * seconds;
  let n = 0;
  async function main() {
    while (Date.now() < end) {
      phase_rec(); phase_again(); phase_sort(); phase_sub(); phase_yield(); phase_class(); phase_json(); phase_arrow(); phase_same(); phase_made(n++);
      await phase_async();
    }
  }
  main();
}

if (isMainThread && process.argv[3] === "worker") for (let i = 0; i < 2; i++) new Worker(__filename, { argv: [seconds] });
steady();
