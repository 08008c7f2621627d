// What changed between two recordings, as icecore-report diff judged it.

import { count, element, percent, short } from "./text.js";
import { Grid } from "./grid.js";
import { isWhole } from "./state.js";

/** @import {App} from "./main.js" */

/** A row of `diff --json`. @typedef {any} Row */

export class Compare {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    const metric = () => app.state.sort === "total" ? "total" : "self";
    const rates = (/** @type {Row} */ row) => row[metric()];
    const points = (/** @type {number} */ share) => this.isShare() ? `${share < 0 ? "" : "+"}${(share * 100).toFixed(2)}` : `${share < 0 ? "" : "+"}${share.toPrecision(3)}`;
    const rate = (/** @type {number} */ it) => this.isShare() ? percent(it) : it.toPrecision(3);
    /** @type {Grid<Row>} */
    this.grid = new Grid("Changes of functions", [
      { title: "before", kind: "number", cell: (row) => rate(rates(row).before) },
      { title: "after", kind: "number", cell: (row) => rate(rates(row).after) },
      { title: "change", kind: "number", cell: (row) => points(rates(row).delta) },
      { title: "95% interval", kind: "number wide", cell: (row) => rates(row).tested ? `${points(rates(row).low)} … ${points(rates(row).high)}` : "too few samples" },
      { title: "verdict", cell: (row) => verdictOf(rates(row), row.status) },
      { title: "function", kind: "name", cell: (row) => nameOfRow(row, rates(row).significant) },
      { title: "image", cell: (row) => short(row.image ?? "") || "–" },
    ], { choose: (row) => this.choose(row) });
    this.note = element("p", { class: "note" });
    this.which = element("select", { "aria-label": "which time of a function", change: () => app.set({ sort: this.which.value }) },
      element("option", { value: "self" }, "self"), element("option", { value: "total" }, "total"));
    this.element = element("div", { class: "stacked" }, element("div", { class: "note" }, this.which, this.note), this.grid.element);
  }

  isShare() {
    return this.app.page.diff?.unit === "share";
  }

  draw() {
    const { diff } = this.app.page;
    if (!diff) {
      this.element.replaceChildren(element("p", { class: "empty" }, "This page has one recording: icecore-report html BEFORE AFTER compares two."));
      return;
    }
    const metric = this.app.state.sort === "total" ? "total" : "self";
    this.which.value = metric;
    const rows = this.app.derive("changes", [metric, this.app.state.search], () => this.rows(metric));
    const significant = rows.filter((row) => row[metric].significant).length;
    const all = `${count(significant)} of ${count(rows.length)} functions changed by more than chance explains (at most ${percent(diff.noise.false_discovery_rate)} of these are chance); unit: ${diff.unit}; the rest is grey`;
    this.note.textContent = isWhole(this.app.state) ? all : `${all}. The filters of this page do not apply here: icecore-report diff judges a part with --from, --pid, --focus and so on.`;
    this.grid.show(rows);
  }

  /** @param {string} metric @returns {Row[]} */
  rows(metric) {
    const { diff } = this.app.page, { matches } = this.app.found(), { search } = this.app.state;
    const found = new Set(this.app.page.functions.filter((_, i) => matches[i]).map((it) => it.name));
    const rows = diff.rows.filter((/** @type {Row} */ row) => !search || found.has(row.name));
    const size = (/** @type {Row} */ row) => Math.abs(row[metric].delta);
    return rows.sort((/** @type {Row} */ a, /** @type {Row} */ b) => Number(b[metric].significant) - Number(a[metric].significant) || size(b) - size(a));
  }

  /** @param {Row} row */
  choose(row) {
    const label = this.app.page.functions.findIndex((it) => it.name === row.name && short(it.image) === short(row.image ?? ""));
    if (label >= 0) this.app.set({ view: "functions", selected: label });
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    return this.grid.key(event);
  }
}

/** @param {any} rates @param {string} status @returns {string} */
function verdictOf(rates, status) {
  if (!rates.tested) return "not tested";
  return rates.significant ? status : "chance";
}

/** @param {Row} row @param {boolean} significant @returns {Node} */
function nameOfRow(row, significant) {
  const was = row.before_name ? ` (was ${row.before_name})` : "";
  return element("span", { class: significant ? "" : "chance" }, row.name + was);
}
