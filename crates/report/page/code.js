// One function: its source lines, with the samples that hit them. `icecore-report annotate` shows their text, and instructions.

import { amount, element, percent, short } from "./text.js";
import { Grid } from "./grid.js";

/** @import {Side} from "./data.js" */
/** @import {App} from "./main.js" */

/** A line of a source file; its file is a position in the texts, and 1 more. @typedef {{file: number, line: number, own: number, total: number}} Line */

export class Code {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.whole = 1;
    const file = (/** @type {Line} */ it) => it.file ? app.side().text[it.file - 1] : "unknown file";
    /** @type {Grid<Line>} */
    this.grid = new Grid("Source lines", [
      { title: "self", kind: "number", cell: (it) => percent(it.own / this.whole), bar: (it) => it.own / this.whole },
      { title: "total", kind: "number", cell: (it) => percent(it.total / this.whole), bar: (it) => it.total / this.whole },
      { title: "line", kind: "number", cell: (it) => it.line ? String(it.line) : "?" },
      { title: "file", kind: "name", cell: file },
    ], {});
    this.title = element("h4");
    this.element = element("div", { class: "stacked" }, this.title, this.grid.element);
  }

  draw() {
    const { app } = this, { functions } = app.page, side = app.side();
    const label = app.state.selected >= 0 ? app.state.selected : this.hottest(), func = functions[label];
    if (!func) return;
    this.whole = app.chosen().total || 1;
    const lines = app.derive("lines", [...app.shape(), label], () => linesOf(app, side, label));
    const own = amount(app.sums().own[label], app.chosen().unit);
    const how = lines.some((it) => it.line) ? "icecore-report annotate shows their text and the instructions" : "no lines are known: see icecore-report missing";
    this.title.textContent = `${func.name} of ${short(func.image) || "?"} · self ${own} · ${how}`;
    this.grid.show(lines);
  }

  /** @returns {number} */
  hottest() {
    const { own } = this.app.sums();
    let best = -1;
    for (let label = 0; label < this.app.page.functions.length; label++) if (own[label] > (own[best] ?? 0)) best = label;
    return best;
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    return this.grid.key(event);
  }
}

/**
 * Adds up the lines of a function: where it ran itself, and where it called. A sample counts once for a line.
 * @param {App} app @param {Side} side @param {number} label @returns {Line[]} in the order of files and lines
 */
function linesOf(app, side, label) {
  const { weight } = app.chosen(side), own = new Map(), total = new Map();
  const add = (/** @type {Map<number, number>} */ to, /** @type {number} */ key, /** @type {number} */ more) => to.set(key, (to.get(key) ?? 0) + more);
  for (let row = 0; row < weight.length; row++) {
    if (!weight[row]) continue;
    const seen = new Set(), leaf = side.row_stack[row];
    for (let at = leaf; at !== 0; at = side.up[at]) {
      if (side.stack_function[at] !== label) continue;
      const frame = side.stack_frame[at], key = side.frame_file[frame] * 2 ** 24 + side.frame_line[frame];
      if (at === leaf) add(own, key, weight[row]);
      if (!seen.has(key)) add(total, key, weight[row]);
      seen.add(key);
    }
  }
  /** @type {Line[]} */
  const hit = [...total].map(([key, sum]) => ({ file: Math.floor(key / 2 ** 24), line: key % 2 ** 24, own: own.get(key) ?? 0, total: sum }));
  return hit.sort((a, b) => a.file - b.file || a.line - b.line);
}
