// Every second beside the next: seconds from left to right, the time within each from bottom to top.

import { amount, element, things } from "./text.js";
import { Canvas } from "./canvas.js";
import { AXIS, Scale, UNSAMPLED, drawAxis, endOf, isUnsampled, moment } from "./axis.js";
import { filterOf, stretchOf, watchDrags } from "./lens.js";
import { everAt } from "./overview.js";
import { CELLS, cellsOf, shadeOf } from "./cells.js";

/** @import {App} from "./main.js" */
/** @import {Cells} from "./cells.js" */

/** The place of the times of rows, px. */
const LEFT = 64;
/** The widest and the narrowest column, px. */
const WIDEST = 28, NARROWEST = 3;
/** Red, green, blue and opacity of cells in which nobody sampled, 0 to 255: seen in the light and in the dark. */
const UNSAMPLED_COLOR = [128, 128, 128, 90];

export class Heat {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = new Canvas("", () => this.paint());
    this.canvas.canvas.setAttribute("aria-label", "Heat map of every second. Arrow keys move between cells, Shift + arrow keys choose a stretch of time, Enter lets only this cell count, Escape everything.");
    this.legend = element("div", { class: "legend" });
    this.element = element("div", { class: "under" }, this.legend, this.canvas.element);
    /** The cells as a picture, a pixel each. */
    this.image = document.createElement("canvas");
    this.drawn = "";
    this.at = 0;
    this.anchor = -1;
    /** The cells that a drag has chosen so far. @type {[number, number]?} */
    this.marked = null;
    const { canvas } = this.canvas;
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", () => app.tip(null, 0, 0));
    canvas.addEventListener("dblclick", () => app.set({ from: -1, to: -1 }));
    watchDrags(canvas, {
      isUpright: true,
      begin: (x, y) => this.cellAt(x, y) >= 0,
      move: (from, to) => {
        this.marked = this.between(this.cellAt(from.x, from.y), this.nearest(to.x, to.y));
        app.tip(null, 0, 0);
        this.canvas.soon();
      },
      end: (from, to) => this.choose(this.cellAt(from.x, from.y), this.nearest(to.x, to.y)),
      click: (x, y) => {
        canvas.focus();
        this.go(this.cellAt(x, y), false);
      },
    });
  }

  /** @returns {Cells} */
  cells() {
    const { app } = this, ever = everAt(app), fit = Math.max(1, Math.floor((this.canvas.element.clientWidth - LEFT) / NARROWEST));
    return app.derive("cells", [app.side().index, fit, app.filters().slice(2)], () => cellsOf(ever.side, ever, fit));
  }

  /** Where cells lie: the size of each, px. */
  size() {
    const { clientWidth, clientHeight } = this.canvas.element, { columns } = this.cells();
    return { wide: Math.max(1, Math.min(WIDEST, (clientWidth - LEFT) / columns)), high: Math.max(4, Math.floor((clientHeight - AXIS) / CELLS)) };
  }

  draw() {
    const { app } = this, { seconds, most, length } = this.cells(), side = app.side(), { unit } = everAt(app), { dark } = app.theme;
    const steps = element("canvas", { width: 120, height: 12, "aria-hidden": "true" }), context = steps.getContext("2d");
    for (let x = 0; x < 120 && context; x++) {
      context.fillStyle = `rgb(${shadeOf(x / 119, dark).join(" ")})`;
      context.fillRect(x, 0, 1, 12);
    }
    const every = seconds === 1 ? "a column is a second" : `the recording is longer than there is room for seconds: a column is ${things(seconds, "second")}`;
    this.legend.replaceChildren(
      element("span", {}, `${every}, a cell ${(length * side.unit_ns / 1e6).toFixed(0)} ms`),
      element("span", {}, "0 ", steps, ` ${amount(most, unit)} in a cell; empty cells have no color${side.unsampled.length ? "; in grey ones nobody sampled" : ""}`),
    );
    this.at = Math.min(this.at, this.cells().sum.length - 1);
    this.canvas.soon();
  }

  /** Makes the picture of the cells, if they or the theme changed. @param {Cells} cells */
  picture(cells) {
    const { app } = this, { dark } = app.theme, { sum, columns, length, most } = cells;
    const drawn = JSON.stringify([app.side().index, columns, dark, app.filters().slice(2)]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.image.width = columns;
    this.image.height = CELLS;
    const context = this.image.getContext("2d"), shades = Array.from({ length: 256 }, (_, i) => shadeOf(i / 255, dark));
    const pixels = new ImageData(columns, CELLS);
    const paint = (/** @type {number} */ cell, /** @type {number[]} */ color) => pixels.data.set(color, 4 * ((CELLS - 1 - cell % CELLS) * columns + Math.floor(cell / CELLS)));
    for (const [from, to] of app.side().unsampled) {
      for (let cell = Math.ceil(from / length); (cell + 1) * length <= to; cell++) paint(cell, UNSAMPLED_COLOR);
    }
    for (let cell = 0; cell < sum.length; cell++) if (sum[cell] > 0) paint(cell, [...shades[Math.round(sum[cell] / most * 255)], 255]);
    context?.putImageData(pixels, 0, 0);
  }

  paint() {
    if (!this.element.isConnected) return;
    const { app, canvas } = this, cells = this.cells(), { wide, high } = this.size(), side = app.side(), { theme } = app;
    this.picture(cells);
    const context = canvas.begin(AXIS + CELLS * high), top = -canvas.top, width = wide * cells.columns;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, LEFT, AXIS + top, width, CELLS * high);
    const [from, to] = this.marked ?? this.stretch(cells);
    if (this.marked || app.state.from >= 0 || app.state.to >= 0) this.shade(from, to, cells, top);
    drawAxis(context, side, new Scale(0, cells.columns * CELLS * cells.length, LEFT, width), top, 0, theme);
    context.fillStyle = theme.faint;
    for (let row = 0; row < CELLS; row += 10) {
      context.fillText(`+${(row * cells.length * side.unit_ns / 1e6).toFixed(0)} ms`, 4, AXIS + top + (CELLS - row) * high - high / 2);
    }
    if (document.activeElement !== canvas.canvas) return;
    context.strokeStyle = theme.accent;
    context.lineWidth = 2;
    const { x, y } = this.corner(this.at, high, wide);
    context.strokeRect(x - 1, y + top - 1, Math.max(wide, 2) + 2, high + 2);
  }

  /** @param {number} cell @param {number} high @param {number} wide @returns {{x: number, y: number}} */
  corner(cell, high, wide) {
    return { x: LEFT + Math.floor(cell / CELLS) * wide, y: AXIS + (CELLS - 1 - cell % CELLS) * high };
  }

  /** The cells that the filter by time leaves. @param {Cells} cells @returns {[number, number]} */
  stretch({ length }) {
    const [from, to] = stretchOf(this.app.side(), this.app.state);
    return [Math.floor(from / length + 1e-6), Math.ceil(to / length - 1e-6) - 1];
  }

  /** Covers all cells but those of a stretch. @param {number} from @param {number} to the last one @param {Cells} cells @param {number} top px */
  shade(from, to, { columns }, top) {
    const { context } = this.canvas, { wide, high } = this.size();
    context.fillStyle = this.app.theme.back;
    context.globalAlpha = 0.72;
    for (let column = 0; column < columns; column++) {
      const first = Math.max(0, Math.min(CELLS, from - column * CELLS)), behind = Math.max(0, Math.min(CELLS, to + 1 - column * CELLS)), x = LEFT + column * wide;
      if (behind <= first) context.fillRect(x, AXIS + top, wide, CELLS * high);
      else {
        context.fillRect(x, AXIS + top, wide, (CELLS - behind) * high);
        context.fillRect(x, AXIS + top + (CELLS - first) * high, wide, first * high);
      }
    }
    context.globalAlpha = 1;
  }

  /** @param {number} x @param {number} y @returns {number} the cell there; -1 if there is none */
  cellAt(x, y) {
    const { wide, high } = this.size(), column = Math.floor((x - LEFT) / wide), row = CELLS - 1 - Math.floor((y - AXIS + this.canvas.top) / high);
    return x >= LEFT && row >= 0 && row < CELLS && column < this.cells().columns ? column * CELLS + row : -1;
  }

  /** @param {number} x @param {number} y @returns {number} the cell that is nearest */
  nearest(x, y) {
    const { wide, high } = this.size(), top = AXIS - this.canvas.top;
    return this.cellAt(Math.max(LEFT, Math.min(LEFT + this.cells().columns * wide - 1, x)), Math.max(top, Math.min(top + CELLS * high - 1, y)));
  }

  /** @param {number} a @param {number} b @returns {[number, number]} */
  between(a, b) {
    return [Math.min(a, b), Math.max(a, b)];
  }

  /** Lets only the cells from one to another count. @param {number} a @param {number} b */
  choose(a, b) {
    const { app } = this, { length } = this.cells(), side = app.side(), [from, to] = this.between(a, b);
    this.marked = null;
    app.set(filterOf(side, from * length, Math.min((to + 1) * length, endOf(side))));
  }

  /** @param {number} cell @returns {string[]} */
  lines(cell) {
    const { app } = this, { length, sum } = this.cells(), side = app.side();
    const what = isUnsampled(side, (cell + 0.5) * length) ? UNSAMPLED : amount(sum[cell], everAt(app).unit);
    return [`${moment(side, cell * length, length / 10)} to ${moment(side, (cell + 1) * length, length / 10)}`, what];
  }

  /** @param {MouseEvent} event */
  hover(event) {
    if (event.buttons) return;
    const { x, y } = this.canvas.at(event), cell = this.cellAt(x, y);
    this.canvas.canvas.style.cursor = cell < 0 ? "default" : "crosshair";
    this.app.tip(cell < 0 ? null : [...this.lines(cell), "drag to choose a stretch of time"], event.clientX, event.clientY);
  }

  /** @param {number} to @param {boolean} extends_ */
  go(to, extends_) {
    const before = this.at;
    this.at = Math.max(0, Math.min(this.cells().sum.length - 1, to));
    this.anchor = extends_ ? (this.anchor < 0 ? before : this.anchor) : -1;
    this.marked = extends_ ? this.between(this.anchor, this.at) : null;
    this.app.tell("at", this.lines(this.at).join(": "));
    this.canvas.soon();
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    /** @type {Record<string, number>} */
    const moves = { ArrowUp: 1, ArrowDown: -1, ArrowRight: CELLS, ArrowLeft: -CELLS };
    if (event.key in moves) this.go(this.at + moves[event.key], event.shiftKey);
    else if (event.key === "Enter") this.choose(this.anchor < 0 ? this.at : this.anchor, this.at);
    else if (event.key === "Escape" && this.marked) this.go(this.at, false);
    else if (event.key === "Escape" && (this.app.state.from >= 0 || this.app.state.to >= 0)) this.app.set({ from: -1, to: -1 });
    else return false;
    return true;
  }
}
