// The frame that was chosen: what it is, what can be done with it, and its callees as a table, also those too narrow to draw.

import { amount, element, percent, short, things } from "./text.js";
import { ordered } from "./sums.js";
import { nameOf } from "./tree.js";
import { doubtful } from "./flame.js";
import { Grid } from "./grid.js";

/** @import {Calls} from "./tree.js" */
/** @import {App} from "./main.js" */

export class Details {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.element = element("aside", { "aria-label": "The chosen frame" });
    /** @type {{calls: Calls, node: number} | null} */
    this.shown = null;
    /** The recording of which something else is shown. @type {import("./data.js").Side?} */
    this.noted = null;
    const whole = () => app.tree().total[0] || 1;
    const share = (/** @type {number} */ node) => this.calls().total[node] / whole();
    /** @type {Grid<number>} */
    this.grid = new Grid("Frames below the chosen one", [
      { title: "total", kind: "number", cell: (node) => percent(share(node)), bar: share },
      { title: "self", kind: "number", cell: (node) => percent(this.calls().own[node] / whole()) },
      { title: "function", kind: "name", cell: (node) => nameOf(app.page, this.calls(), node) },
    ], { choose: (node) => this.choose(node) });
  }

  /** @param {number} node */
  choose(node) {
    this.show(this.calls(), node);
    if (this.calls() === this.app.calls()) this.app.zoom(node);
  }

  /** @returns {Calls} */
  calls() {
    return /** @type {{calls: Calls, node: number}} */ (this.shown).calls;
  }

  /** @param {Calls} calls @param {number} node */
  show(calls, node) {
    this.shown = { calls, node };
    this.noted = null;
    const { app } = this, { unit } = app.chosen(), whole = app.tree().total[0] || 1;
    const name = nameOf(app.page, calls, node), func = app.page.functions[calls.label[node]];
    const doubt = app.doubtOf(calls, node);
    const children = ordered(new Uint32Array(calls.children(node)), calls.total, true);
    const facts = [`total ${percent(calls.total[node] / whole)}, ${amount(calls.total[node], unit)}`, `${calls.ended} ${percent(calls.own[node] / whole)}, ${amount(calls.own[node], unit)}`];
    this.element.replaceChildren(
      element("h2", { title: name }, name),
      ...(func ? [element("p", { class: "path", title: func.image }, func.image || "no image", func.reason ? ` · no name: ${func.reason}` : "")] : []),
      element("p", {}, facts.join(" · ")),
      ...(doubt ? [element("p", {}, doubtful(doubt))] : []),
      ...app.changeLines(calls, node).map((line) => element("p", {}, line)),
      element("div", { class: "does" }, ...(func ? this.buttons(calls.label[node]) : [])),
      element("h3", {}, `${things(children.length, calls.ended === "begins" ? "caller" : "callee")}, all of them`),
      this.grid.element,
    );
    this.grid.at = 0;
    this.grid.columns[1].title = calls.ended;
    this.grid.show(children);
  }

  /** Shows something that is no frame, until a frame is shown or the view changes. @param {Node[]} nodes */
  note(nodes) {
    this.shown = null;
    this.grid.show([]);
    this.noted = this.app.side();
    this.element.replaceChildren(...nodes);
  }

  /** Returns true if what is shown does not belong to what the view shows. @param {Calls} calls @returns {boolean} */
  isStale(calls) {
    return this.noted !== this.app.side() && this.shown?.calls !== calls;
  }

  /** @param {number} label @returns {Node[]} */
  buttons(label) {
    const { app } = this, func = app.page.functions[label];
    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ does) => element("button", { title, click: does }, text);
    const only = button(`only ${short(func.image) || "?"}`, "only samples with a frame of this image", () => app.set({ image: [func.image], zoom: "" }));
    if (app.state.merge === "image") return func.image ? [only] : [];
    const with_ = (/** @type {"focus" | "without" | "hide"} */ field) => () => app.set({ [field]: [...app.state[field], func.name], zoom: "" });
    return [
      button("callers and callees", "b: who calls this function, and what it calls", () => app.set({ view: "functions", selected: label })),
      button("focus", "f: only samples with this function", with_("focus")),
      button("exclude", "x: no samples with this function", with_("without")),
      button("hide", "h: take the frames of this function out of the stacks", with_("hide")),
      only,
      button("code", "s: its source lines and instructions", () => app.set({ view: "code", selected: label })),
    ];
  }
}
