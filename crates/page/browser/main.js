// Puts the page together: one state, what follows from it, and the views that show it.

import { amount, count, element, percent, things } from "./text.js";
import { functionKey, isDoubtful, open, unpack } from "./data.js";
import { FILTERS, START, fromFragment, isWhole, toFragment } from "./state.js";
import { choose } from "./choose.js";
import { NOTHING, Paths } from "./paths.js";
import { Forest } from "./forest.js";
import { Tree, totalsOf } from "./tree.js";
import { inverted } from "./lazy.js";
import { search, shareOf, sumsOf } from "./sums.js";
import { themeOf } from "./colors.js";
import { wholeOf } from "./flame.js";
import { headOf } from "./head.js";
import { Bar } from "./bar.js";
import { Details } from "./details.js";
import { Overview } from "./overview.js";
import { VIEWS } from "./views.js";

/** @import {Page, Side} from "./data.js" */
/** @import {State} from "./state.js" */
/** @import {Chosen} from "./choose.js" */
/** @import {Calls} from "./tree.js" */
/** @import {View} from "./views.js" */

export class App {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    if (page.sides.length > 1) Object.assign(START, { side: 1, color: "change" });
    /** @type {State} */
    this.state = fromFragment(location.hash);
    this.theme = themeOf(document.documentElement);
    /** What follows from the state, and from which part of it. @type {Map<string, {key: string, value: any}>} */
    this.derived = new Map();
    /** @type {Map<string, View>} */
    this.views = new Map();
    this.details = new Details(this);
    this.bar = new Bar(this);
    this.overview = new Overview(this);
    /** @type {Map<string, string>} */
    this.told = new Map();
    this.tipBox = element("div", { id: "tip", role: "tooltip", hidden: true });
    /** @type {Uint8Array?} */
    this.inlined = null;
    /** The state of which `text` is what the tree depends on. @type {{state: State?, text: string}} */
    this.shaped = { state: null, text: "" };
    /** A view has shown a frame beside itself. */
    this.inspected = false;
  }

  start() {
    place("head").replaceChildren(...headOf(this));
    place("bar").replaceChildren(this.bar.element);
    place("overview").replaceChildren(this.overview.element);
    document.body.append(this.tipBox);
    window.addEventListener("hashchange", () => this.arrive());
    window.addEventListener("keydown", (event) => { if (this.key(event)) event.preventDefault(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.draw();
  }

  // --- state

  /** Changes the state; the one before can be had back. @param {Partial<State>} changes */
  set(changes) {
    const next = { ...this.state, ...changes };
    const fragment = toFragment(next);
    if (fragment === toFragment(this.state)) return;
    this.state = next;
    history.pushState((history.state ?? 0) + 1, "", `#${fragment}`);
    this.draw();
  }

  /** Changes the state as `set` does, but so that "back" leads to what was before several such changes. @param {Partial<State>} changes */
  adjust(changes) {
    this.state = { ...this.state, ...changes };
    history.replaceState(history.state, "", `#${toFragment(this.state)}`);
    this.draw();
  }

  /** Goes back to the state before the last change; never away from the page. */
  undo() {
    if (history.state > 0) history.back();
  }

  arrive() {
    this.state = fromFragment(location.hash);
    this.draw();
  }

  reset() {
    const kept = { view: this.state.view, theme: this.state.theme, side: this.state.side };
    this.set({ ...START, ...kept });
  }

  // --- what follows from the state

  /**
   * @template T
   * @param {string} name @param {unknown[] | string} from what the value depends on @param {() => T} make @returns {T}
   */
  derive(name, from, make) {
    const key = typeof from === "string" ? from : JSON.stringify(from), known = this.derived.get(name);
    if (known?.key === key) return known.value;
    const value = make();
    this.derived.set(name, { key, value });
    return value;
  }

  /** @returns {Side} */
  side() {
    return this.page.sides[this.state.side] ?? this.page.sides[0];
  }

  /** @returns {unknown[]} */
  filters() {
    return [...FILTERS.map((name) => this.state[name]), this.state.metric];
  }

  /** The samples that count. @param {Side} [side] @returns {Chosen} */
  chosen(side = this.side()) {
    return this.derive(`chosen ${side.index}`, this.filters(), () => choose(this.page, side, this.state));
  }

  shape() {
    const { root, hide, collapse, merge, order } = this.state;
    return [...this.filters(), root, hide, collapse, merge, order, this.side().index];
  }

  /** What the tree depends on, as one text: each frame that is drawn asks for the tree. @returns {string} */
  shapeKey() {
    if (this.shaped.state !== this.state) this.shaped = { state: this.state, text: JSON.stringify(this.shape()) };
    return this.shaped.text;
  }

  /** The paths of all stacks, whatever the filters. @param {State} [state] @returns {Paths} */
  paths(state = this.state) {
    const { hide, collapse, merge } = state;
    return this.derive(`paths ${collapse} ${hide.length > 0}`, [hide, merge], () => new Paths(this.page, state));
  }

  /** The tree of all stacks, whatever the filters. It is kept while frames are hidden or recursion is drawn once. @param {State} state @returns {Forest} */
  forest(state) {
    const { root, hide, collapse, merge } = state, isOfAll = hide.length > 0 && !collapse && !merge;
    return this.derive(`forest ${collapse} ${hide.length > 0}`, [root, hide, merge], () => (
      new Forest(this.page, state, isOfAll ? this.forest({ ...state, hide: [] }) : this.paths(state))));
  }

  /** The samples as a tree, root first; with two recordings also the totals of the other one. @returns {Tree} */
  tree() {
    return this.derive("tree", this.shapeKey(), () => {
      const { page: { sides }, state } = this, other = sides.length > 1 ? this.chosen(sides[1 - this.side().index]) : undefined;
      return new Tree(this.forest(state), this.chosen(), state, other);
    });
  }

  /** The tree that is shown. @returns {Calls} */
  calls() {
    return this.state.inverted ? this.derive("inverted", this.shapeKey(), () => inverted(this.tree())) : this.tree();
  }

  /** The tree with all recursion: where a cycle is drawn once, what passed through its other functions is not seen. @returns {Tree} */
  expanded() {
    if (!this.state.collapse) return this.tree();
    const state = { ...this.state, collapse: false };
    return this.derive("expanded", this.shapeKey(), () => new Tree(this.forest(state), this.chosen(), state));
  }

  sums() {
    return this.derive("sums", this.shapeKey(), () => sumsOf(this.expanded()));
  }

  /** What the search finds. */
  found() {
    return this.derive("found", [this.state.search], () => search(this.page, this.state.search));
  }

  /** The share of samples with a frame that the search finds. @returns {number} */
  foundShare() {
    return this.derive("share", [...this.shape(), this.state.search], () => shareOf(this.expanded(), this.found().matches) / (this.expanded().total[0] || 1));
  }

  /** Returns true if a function was inlined wherever it was seen. @param {number} label @returns {boolean} */
  isInlined(label) {
    if (!this.inlined) {
      this.inlined = new Uint8Array(this.page.functions.length).fill(1);
      for (const side of this.page.sides) {
        side.frame_function.forEach((it, i) => { /** @type {Uint8Array} */ (this.inlined)[it] &= side.frame_inlined[i]; });
      }
    }
    return this.inlined[label] === 1;
  }

  /** @returns {string} */
  whole() {
    return wholeOf(this.chosen());
  }

  // --- trust, and kinds of waits

  /** What of each node of the tree has a doubtful user stack: cut, guessed, or without a root. @returns {Float64Array} */
  doubts() {
    return this.derive("doubts", this.shapeKey(), () => {
      const { taken, row_taken } = this.side(), doubtful = taken.map(isDoubtful);
      return totalsOf(this.tree(), this.chosen(), (row) => doubtful[row_taken[row]]);
    });
  }

  /** What of everything has: this is shown after each filter, and needs no sums of nodes. @returns {number} */
  doubt() {
    return this.derive("doubt", this.shapeKey(), () => {
      const { side: { taken, row_taken }, weight } = this.chosen(), doubtful = taken.map(isDoubtful), { leaves } = this.tree();
      let sum = 0;
      for (let row = 0; row < weight.length; row++) if (doubtful[row_taken[row]] && leaves[row] !== NOTHING) sum += weight[row];
      return sum;
    });
  }

  /** The share of a node whose stacks are doubtful; 0 in a tree of callers, which does not have it. @param {Calls} calls @param {number} node */
  doubtOf(calls, node) {
    if (calls !== this.tree() || !calls.total[node]) return 0;
    return (node === 0 ? this.doubt() : this.doubts()[node]) / calls.total[node];
  }

  /** For each node of the tree the kind of most of its waits; empty if it has none. @returns {string[]} */
  kindsOfWaits() {
    return this.derive("kinds of waits", this.shapeKey(), () => {
      const tree = this.tree(), { waits, row_wait } = this.side();
      const kinds = new Array(tree.length).fill(""), most = new Float64Array(tree.length);
      for (const kind of new Set(waits.map((it) => it.kind))) {
        const total = totalsOf(tree, this.chosen(), (row) => row_wait[row] > 0 && waits[row_wait[row] - 1].kind === kind);
        for (let node = 0; node < tree.length; node++) {
          if (total[node] <= most[node]) continue;
          most[node] = total[node];
          kinds[node] = kind;
        }
      }
      return kinds;
    });
  }

  // --- changes between two recordings

  /** The change of a node as a share of everything, from the first recording to the second. @param {Calls} calls @param {number} node */
  changeOf(calls, node) {
    const shares = this.sharesOf(calls, node);
    if (!shares) return { change: 0, isChance: true };
    const func = this.page.functions[calls.label[node]];
    const isProven = func && this.verdicts().get(functionKey(func.name, func.image));
    return { change: shares[1] - shares[0], isChance: isWhole(this.state) && !isProven };
  }

  /** @param {Calls} calls @param {number} node @returns {[number, number]?} before and after */
  sharesOf(calls, node) {
    const tree = this.tree(), { before } = tree;
    if (!before || calls !== tree) return null;
    const shares = /** @type {[number, number]} */ ([before[node] / (before[0] || 1), tree.total[node] / (tree.total[0] || 1)]);
    return this.state.side === 0 ? [shares[1], shares[0]] : shares;
  }

  /** Whether the change of a function is more than chance, as the comparison judged the whole recordings. @returns {Map<string, boolean>} */
  verdicts() {
    return this.derive("verdicts", [], () => {
      const all = new Map();
      for (const row of this.page.diff?.rows ?? []) all.set(functionKey(row.name, row.image ?? ""), Boolean(row.total.significant));
      return all;
    });
  }

  /** @param {Calls} calls @param {number} node @returns {string[]} */
  changeLines(calls, node) {
    const shares = this.sharesOf(calls, node);
    if (!shares) return [];
    const { isChance } = this.changeOf(calls, node), change = shares[1] - shares[0];
    const verdict = !isWhole(this.state) ? "not judged: filters are active" : isChance ? "can be chance" : "";
    return [`before ${percent(shares[0])} → after ${percent(shares[1])} (${change < 0 ? "" : "+"}${(change * 100).toFixed(2)} points)${verdict ? ` · ${verdict}` : ""}`];
  }

  // --- zoom

  /** The node that fills the width. @returns {number} */
  zoomed() {
    const calls = this.calls();
    let node = 0;
    for (const word of this.state.zoom ? this.state.zoom.split(".") : []) {
      const next = Array.from(calls.children(node)).find((it) => calls.label[it] === Number(word));
      if (next === undefined) return node;
      node = next;
    }
    return node;
  }

  /** @param {number} node */
  zoom(node) {
    const calls = this.calls(), labels = [];
    for (let at = node; at !== 0; at = calls.parent[at]) labels.push(calls.label[at]);
    this.set({ zoom: labels.reverse().join(".") });
  }

  /** Shows a node beside the view. @param {Calls} calls @param {number} node */
  inspect(calls, node) {
    this.inspected = true;
    this.details.show(calls, node);
  }

  // --- drawing

  draw() {
    const { theme, view } = this.state;
    document.documentElement.dataset.theme = theme;
    this.tip(null, 0, 0);
    this.theme = themeOf(document.documentElement);
    const shown = VIEWS.find(([name]) => name === view) ?? VIEWS[0];
    let made = this.views.get(shown[0]);
    if (!made) {
      made = shown[2](this);
      this.views.set(shown[0], made);
    }
    const main = place("main");
    if (main.firstElementChild !== made.element) {
      main.replaceChildren(made.element, this.details.element);
      this.told.clear();
      this.details.noted = null;
    }
    this.tell("narrow", "");
    this.tell("whole", this.sentence());
    this.bar.draw();
    this.overview.draw();
    made.draw();
    const isKept = this.inspected || this.details.noted && !this.details.isStale(this.calls());
    if (!isKept) this.inspect(this.calls(), this.zoomed());
    this.inspected = false;
  }

  /** Says what is shown. @returns {string} */
  sentence() {
    const chosen = this.chosen(), all = this.chosen().side.summary.samples;
    const what = chosen.unit === "samples" ? things(chosen.samples, "sample") : `${amount(chosen.total, chosen.unit)} in ${things(chosen.samples, "sample")}`;
    const mixed = chosen.isMixed ? " · events with different units: every sample counts as one" : "";
    const { emptied } = this.tree(), left = emptied ? ` · ${things(emptied, "sample")} with nothing but hidden frames, left out` : "";
    return `100% is ${what}${isWhole(this.state) || this.state.event.length ? "" : ` of ${count(all)}`}${mixed}${left}`;
  }

  /** Says something at the foot of the page. @param {string} what @param {string} text */
  tell(what, text) {
    if (this.told.get(what) === text) return;
    this.told.set(what, text);
    place("foot").textContent = [...this.told.values()].filter(Boolean).join(" · ");
  }

  /** Shows text beside the pointer. @param {string[]?} lines @param {number} x @param {number} y */
  tip(lines, x, y) {
    this.tipBox.hidden = !lines;
    if (!lines) return;
    this.tipBox.replaceChildren(...lines.map((line) => element("div", {}, line)));
    const { offsetWidth, offsetHeight } = this.tipBox;
    this.tipBox.style.left = `${Math.max(0, Math.min(x + 14, innerWidth - offsetWidth - 4))}px`;
    this.tipBox.style.top = `${y + 18 + offsetHeight > innerHeight ? y - offsetHeight - 8 : y + 18}px`;
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return false;
    if (this.bar.key(event)) return true;
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return false;
    const view = VIEWS[Number(event.key) - 1];
    if (view) this.set({ view: view[0] });
    else if (event.key === "u") this.undo();
    else if (event.key === "r") this.reset();
    else if (event.key in this.nodeKeys) this.nodeKeys[event.key]();
    else return this.views.get(this.state.view)?.key?.(event) ?? false;
    return true;
  }

  /** Keys for the chosen frame. @type {Record<string, () => void>} */
  nodeKeys = {
    b: () => this.withChosen((label) => this.set({ view: "functions", selected: label })),
    f: () => this.withChosen((label) => this.set({ focus: [...this.state.focus, this.page.functions[label].name], zoom: "" })),
    x: () => this.withChosen((label) => this.set({ without: [...this.state.without, this.page.functions[label].name], zoom: "" })),
    h: () => this.withChosen((label) => this.set({ hide: [...this.state.hide, this.page.functions[label].name], zoom: "" })),
    s: () => this.withChosen((label) => this.set({ view: "code", selected: label })),
  };

  /** @param {(label: number) => void} then */
  withChosen(then) {
    const shown = this.details.shown, label = shown ? shown.calls.label[shown.node] : -1;
    if (label >= 0 && label < this.page.functions.length && this.state.merge !== "image") then(label);
  }
}

/** @param {string} id @returns {HTMLElement} */
export function place(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** Reads the data, and says so if it cannot be read. */
async function load() {
  const data = place("data"), begin = performance.now();
  try {
    const app = new App(open(await unpack(data.textContent ?? "")));
    data.remove();
    app.start();
    document.documentElement.dataset.loaded = String(Math.round(performance.now() - begin));
  } catch (error) {
    place("main").textContent = `This page cannot be shown: ${error}. It needs a browser of 2023 or later.`;
    throw error;
  }
}

// Tests import the modules without a document.
if (typeof document !== "undefined" && document.getElementById("data")) load();
