// Trees as outlines, of which branches are opened and closed.

import { amount, element, percent } from "./text.js";
import { Grid } from "./grid.js";
import { ordered } from "./sums.js";
import { nameOf } from "./tree.js";

/** @import {Calls} from "./tree.js" */
/** @import {App} from "./main.js" */

/** A node that is seen. @typedef {{node: number, depth: number}} Entry */

/** A branch of at least this share is open until it is closed. */
const OPEN = 0.05;
/** The deepest line that is indented further than the one above, so that names stay in sight. */
const DEEPEST = 60;

export class Outline {
  /** @param {App} app @param {string} label */
  constructor(app, label) {
    this.app = app;
    /** @type {Calls?} */
    this.calls = null;
    this.whole = 1;
    /** Nodes that were opened or closed by hand. @type {Map<number, boolean>} */
    this.open = new Map();
    const share = (/** @type {number} */ weight) => weight / (this.whole || 1);
    /** @type {Grid<Entry>} */
    this.grid = new Grid(label, [
      { title: "total", kind: "number", cell: ({ node }) => percent(share(this.tree().total[node])), bar: ({ node }) => share(this.tree().total[node]) },
      { title: "self", kind: "number", cell: ({ node }) => percent(share(this.ownOf(node))) },
      { title: "", kind: "number", cell: ({ node }) => amount(this.tree().total[node], app.chosen().unit) },
      { title: "function", kind: "name", cell: (entry) => this.name(entry) },
    ], { choose: (entry) => this.toggle(entry), key: (event, entry) => this.key(event, entry) });
    this.element = this.grid.element;
    this.element.setAttribute("role", "treegrid");
  }

  /** @returns {Calls} */
  tree() {
    return /** @type {Calls} */ (this.calls);
  }

  /** What ended in a node: a tree that is built where somebody looks knows it with the children. @param {number} node @returns {number} */
  ownOf(node) {
    const calls = this.tree();
    calls.children(node);
    return calls.own[node];
  }

  /** @param {Calls} calls @param {number} whole what 100% is */
  show(calls, whole) {
    // Filters leave the nodes of a forest as they are, and so what was opened.
    if (!this.calls || (calls.forest ?? calls) !== (this.calls.forest ?? this.calls)) this.open.clear();
    this.calls = calls;
    this.whole = whole;
    this.grid.columns[1].title = calls.ended;
    this.grid.show(this.entries());
  }

  /** @param {number} node @returns {boolean} */
  isOpen(node) {
    return this.open.get(node) ?? (node === 0 || this.tree().total[node] >= OPEN * this.whole);
  }

  /** Lists what is seen, in the order of lines. @returns {Entry[]} */
  entries() {
    const calls = this.tree(), entries = [], work = [{ node: 0, depth: 0 }];
    for (let next = work.pop(); next; next = work.pop()) {
      entries.push(next);
      if (!this.isOpen(next.node)) continue;
      const children = ordered(new Uint32Array(calls.children(next.node)), calls.total, false);
      for (const child of children) if (calls.total[child] > 0) work.push({ node: child, depth: next.depth + 1 });
    }
    return entries;
  }

  /** @param {Entry} entry @returns {Node} */
  name({ node, depth }) {
    const calls = this.tree(), { app } = this, label = calls.label[node];
    const mark = calls.children(node).length === 0 ? "  " : this.isOpen(node) ? "▾ " : "▸ ";
    const deep = depth > DEEPEST ? `${depth} ` : "";
    const func = app.page.functions[label];
    const made = element("span", { class: func && app.found().matches[label] ? "found" : "", title: func ? `${func.name}\n${func.image}` : "" });
    const name = node === 0 && !func ? app.whole() : nameOf(app.page, calls, node);
    made.textContent = "  ".repeat(Math.min(depth, DEEPEST)) + mark + deep + name;
    return made;
  }

  /** @param {Entry} entry */
  toggle({ node }) {
    this.open.set(node, !this.isOpen(node));
    this.app.inspect(this.tree(), node);
    this.grid.show(this.entries());
  }

  /** @param {KeyboardEvent} event @param {Entry} entry @returns {boolean} */
  key(event, { node }) {
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      this.open.set(node, event.key === "ArrowRight");
      this.grid.show(this.entries());
      return true;
    }
    if (event.key !== "*") return false;
    this.openAll(node);
    return true;
  }

  /** Opens everything below a node, up to some thousand lines. @param {number} node */
  openAll(node) {
    const calls = this.tree(), work = [node];
    for (let opened = 0; work.length && opened < 5000; opened++) {
      const next = /** @type {number} */ (work.pop());
      this.open.set(next, true);
      for (const child of Array.from(calls.children(next))) work.push(child);
    }
    this.grid.show(this.entries());
  }
}

/** The view of the whole tree. */
export class CallTree {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.outline = new Outline(app, "Call tree");
    this.element = this.outline.element;
  }

  draw() {
    this.outline.show(this.app.calls(), this.app.tree().total[0]);
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    return this.outline.grid.key(event);
  }
}
