// One function: its source lines and its instructions, with the samples that hit them.

import { amount, count, element, percent, short, things } from "./text.js";
import { Grid } from "./grid.js";

/** @import {Side} from "./data.js" */
/** @import {App} from "./main.js" */

/** A line of a source file. @typedef {{file: number, line: number, text: string, own: number, total: number}} Line */
/** An instruction, with the samples of the whole recording. @typedef {{address: string, text: string, file: string, line: number, own: number, calls: number}} Instruction */

/** Lines shown around those that were hit. */
const AROUND = 5;

export class Code {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.whole = 1;
    const share = (/** @type {number} */ weight) => weight ? percent(weight / this.whole) : "";
    /** @type {Grid<Line>} */
    this.lines = new Grid("Source lines", [
      { title: "self", kind: "number", cell: (it) => share(it.own), bar: (it) => it.own / this.whole },
      { title: "total", kind: "number", cell: (it) => share(it.total), bar: (it) => it.total / this.whole },
      { title: "line", kind: "number", cell: (it) => it.line ? String(it.line) : "" },
      { title: "source", kind: "name", cell: (it) => it.text },
    ], {});
    /** @type {Grid<Instruction>} */
    this.instructions = new Grid("Instructions", [
      { title: "samples", kind: "number", cell: (it) => it.own ? count(it.own) : "", bar: (it) => it.own / this.most },
      { title: "calls", kind: "number", cell: (it) => it.calls ? count(it.calls) : "" },
      { title: "address", cell: (it) => it.address },
      { title: "instruction", kind: "name", cell: (it) => it.text },
      { title: "line", cell: (it) => it.line ? `${short(it.file)}:${it.line}` : "" },
    ], {});
    this.most = 1;
    this.title = element("h4");
    this.second = element("h4");
    this.element = element("div", { class: "split" }, element("div", {}, this.title, this.lines.element), element("div", {}, this.second, this.instructions.element));
  }

  draw() {
    const { app } = this, { functions } = app.page, side = app.side();
    const label = app.state.selected >= 0 ? app.state.selected : this.hottest(), func = functions[label];
    if (!func) return;
    this.whole = app.chosen().total || 1;
    const lines = app.derive("lines", [...app.shape(), label], () => linesOf(app, side, label));
    const { unit } = app.chosen(), own = app.sums().own[label];
    const files = new Set(lines.filter((it) => it.total && it.file).map((it) => side.text[it.file - 1]));
    const isText = lines.some((it) => it.text && !it.total);
    const why = isText ? "" : files.size ? " · the page has no text of these files: icecore-report pack --source puts it into a recording" : " · no lines are known: see icecore-report missing";
    this.title.textContent = `${func.name} · self ${amount(own, unit)} · ${[...files].join(", ") || "no file"}${why}`;
    this.lines.show(lines);
    const listing = this.listing(side, label);
    this.most = Math.max(1, ...(listing?.instructions ?? []).map((it) => it.own));
    this.second.textContent = listing ? `${things(listing.instructions.length, "instruction")} of ${listing.of}; samples of the whole recording, whatever the filters`
      : "no instructions: the page has them only of the hottest functions whose image is at hand";
    this.instructions.show(listing?.instructions ?? []);
    if (app.state.selected === label) app.inspect(app.calls(), app.zoomed());
  }

  /** @returns {number} */
  hottest() {
    const { own } = this.app.sums();
    let best = -1;
    for (let label = 0; label < this.app.page.functions.length; label++) if (own[label] > (own[best] ?? 0)) best = label;
    return best;
  }

  /** @param {Side} side @param {number} label @returns {{instructions: Instruction[], of: string} | undefined} */
  listing(side, label) {
    const { name, image } = this.app.page.functions[label];
    const found = (side.listings ?? []).find((it) => it.name === name && short(it.image) === short(image));
    return found && { instructions: found.instructions, of: found.image };
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    return this.lines.key(event);
  }
}

/**
 * Adds up the lines of a function: where it ran itself, and where it called. A sample counts once for a line.
 * @param {App} app @param {Side} side @param {number} label @returns {Line[]}
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
  const hit = [...total].map(([key, sum]) => ({ file: Math.floor(key / 2 ** 24), line: key % 2 ** 24, text: "", own: own.get(key) ?? 0, total: sum }));
  hit.sort((a, b) => a.file - b.file || a.line - b.line);
  return withText(side, hit);
}

/** Puts lines between those that were hit, where the text of the file is at hand. @param {Side} side @param {Line[]} hit @returns {Line[]} */
function withText(side, hit) {
  /** @type {Line[]} */
  const all = [];
  for (const [i, line] of hit.entries()) {
    const text = line.file ? side.sources?.[side.text[line.file - 1]]?.lines : undefined;
    const before = hit[i - 1]?.file === line.file ? hit[i - 1].line : 0, next = hit[i + 1]?.file === line.file ? hit[i + 1].line : Infinity;
    if (text && line.line) {
      const first = Math.max(before + 1, line.line - AROUND, 1);
      if (first > before + AROUND + 1 || before === 0) all.push({ file: line.file, line: 0, text: side.text[line.file - 1], own: 0, total: 0 });
      for (let n = first; n < line.line; n++) all.push({ file: line.file, line: n, text: text[n - 1] ?? "", own: 0, total: 0 });
    }
    all.push({ ...line, text: text?.[line.line - 1] ?? (line.file ? short(side.text[line.file - 1]) : "line unknown") });
    if (text && line.line) {
      const last = Math.min(line.line + AROUND, text.length, next - AROUND - 1);
      for (let n = line.line + 1; n <= last; n++) all.push({ file: line.file, line: n, text: text[n - 1], own: 0, total: 0 });
    }
  }
  return all;
}
