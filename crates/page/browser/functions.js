// The list of functions, and around the chosen one its callers and its callees.

import { amount, element, percent, short, things } from "./text.js";
import { Grid } from "./grid.js";
import { around } from "./lazy.js";
import { nameOfLabel } from "./tree.js";
import { ordered } from "./sums.js";
import { Outline } from "./calls.js";

/** @import {App} from "./main.js" */

export class Functions {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    const share = (/** @type {Float64Array} */ of, /** @type {number} */ label) => of[label] / (app.tree().total[0] || 1);
    /** @type {Grid<number>} */
    this.grid = new Grid("Functions", [
      { title: "self", key: "self", kind: "number", cell: (it) => percent(share(app.sums().own, it)), bar: (it) => share(app.sums().own, it) },
      { title: "total", key: "total", kind: "number", cell: (it) => percent(share(app.sums().total, it)), bar: (it) => share(app.sums().total, it) },
      { title: "self", key: "", kind: "number", cell: (it) => amount(app.sums().own[it], app.chosen().unit) },
      { title: "function", key: "name", kind: "name", cell: (it) => nameOfLabel(app.page.functions[it], app.state.merge === "image") },
      { title: "image", key: "image", cell: (it) => short(app.page.functions[it].image) || "–" },
    ], {
      choose: (label) => app.set({ selected: label }),
      sort: (key) => key && app.set({ sort: key }),
    });
    this.callers = new Outline(app, "Callers");
    this.callees = new Outline(app, "Callees");
    this.above = element("h4");
    this.below = element("h4");
    this.title = element("h4");
    this.element = element("div", { class: "split" },
      element("div", {}, this.title, this.grid.element),
      element("div", { class: "columns" },
        element("div", {}, this.above, this.callers.element), element("div", {}, this.below, this.callees.element)));
  }

  /** Functions with samples, or with a match of the search, in the order that was chosen. @returns {Uint32Array} */
  rows() {
    const { app } = this, { own, total } = app.sums(), { byName, imageOf } = app.page, { sort, search } = app.state;
    const { matches } = app.found(), named = new Uint32Array(byName.length), shown = new Uint32Array(byName.length);
    for (let label = 0; label < named.length; label++) named[byName[label]] = label;
    let length = 0;
    for (let i = 0; i < named.length; i++) {
      const label = named[i];
      if (total[label] > 0 && (!search || matches[label])) shown[length++] = label;
    }
    /** What decides, the last first; what is alike stays ordered by name. @type {Record<string, [ArrayLike<number>, boolean][]>} */
    const orders = {
      self: [[total, true], [own, true]],
      total: [[own, true], [total, true]],
      name: [],
      image: [[own, true], [imageOf, false]],
    };
    const order = Object.hasOwn(orders, sort) ? orders[sort] : orders.self;
    /** @type {Uint32Array} */
    let rows = shown.subarray(0, length);
    for (const [by, falls] of order) rows = ordered(rows, by, falls);
    return rows;
  }

  draw() {
    const { app } = this, { state } = app;
    const rows = app.derive("rows", [...app.shape(), state.sort, state.search], () => this.rows());
    this.title.textContent = `${things(rows.length, "function")}${state.search ? " that the search finds" : ""}: choose one for its callers and callees`;
    const at = rows.indexOf(state.selected);
    if (at >= 0) this.grid.at = at;
    this.grid.show(rows, state.sort);
    const label = state.selected >= 0 && state.selected < app.page.functions.length ? state.selected : rows[0] ?? -1;
    if (label < 0) return;
    const { callers, callees } = app.derive("around", [...app.shape(), label], () => around(app.expanded(), label));
    const name = nameOfLabel(app.page.functions[label], app.state.merge === "image");
    this.above.textContent = `who calls ${name}`;
    this.below.textContent = `what ${name} calls`;
    this.callers.show(callers, app.tree().total[0]);
    this.callees.show(callees, app.tree().total[0]);
    if (state.selected === label) app.inspect(callees, 0);
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    return this.grid.key(event);
  }
}
