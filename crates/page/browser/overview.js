// The strip above all views: what was done over the whole recording, and the stretch of it that counts.

import { Canvas } from "./canvas.js";
import { choose } from "./choose.js";
import { Reach, amountOf, kindsOf, largest, rateText, spread } from "./activity.js";
import { AXIS, Scale, UNSAMPLED, drawAxis, endOf, hatchUnsampled, isUnsampled, moment } from "./axis.js";
import { Lens, watchDrags } from "./lens.js";
import { colorOfActivity } from "./colors.js";

/** @import {App} from "./main.js" */
/** @import {Chosen} from "./choose.js" */
/** @import {Kind} from "./activity.js" */

/** How near to an edge a drag moves the edge, px. */
const NEAR = 6;
/** The height of the strip, px. */
const STRIP = 56;

/** The samples that all filters but that by time leave. @param {App} app @returns {Chosen} */
export function everAt(app) {
  const side = app.side(), { state } = app, isWhole = state.from < 0 && state.to < 0;
  const from = [state.process, state.thread, state.event, state.image, state.focus, state.without, state.metric];
  return app.derive(`ever ${side.index}`, from, () => isWhole ? app.chosen() : choose(app.page, side, { ...state, from: -1, to: -1 }));
}

/** @param {App} app @returns {Reach} */
export function reachIn(app) {
  const side = app.side();
  return app.derive(`reach ${side.index}`, [], () => new Reach(side));
}

/**
 * What a drag that begins at `x` does to the stretch between two edges: it moves an edge or the stretch, or begins another.
 * @param {number} x @param {number} left @param {number} right @param {boolean} isWhole @returns {"from" | "to" | "move" | "new"}
 */
export function gripAt(x, left, right, isWhole) {
  if (isWhole) return "new";
  const [toLeft, toRight] = [Math.abs(x - left), Math.abs(x - right)];
  if (Math.min(toLeft, toRight) <= NEAR) return toLeft < toRight ? "from" : "to";
  return x > left && x < right ? "move" : "new";
}

export class Overview {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = new Canvas("", () => this.paint());
    this.element = this.canvas.element;
    this.lens = new Lens(app, () => this.canvas.soon(), true);
    /** @type {"from" | "to" | "move" | "new"} */
    this.grip = "new";
    this.held = [0, 1];
    const { canvas } = this.canvas;
    canvas.setAttribute("role", "slider");
    canvas.setAttribute("aria-label", "Stretch of time. Arrow keys move it, Shift + arrow keys move its end, Escape chooses everything.");
    canvas.addEventListener("dblclick", () => this.lens.clear());
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || !this.press(event)) return;
      event.preventDefault();
      event.stopPropagation();
    });
    canvas.addEventListener("wheel", (event) => this.lens.wheel(event, this.scale().time(this.canvas.at(event).x), this.canvas.width), { passive: false });
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", () => app.tip(null, 0, 0));
    watchDrags(canvas, {
      begin: (x) => {
        this.grip = this.gripAt(x);
        this.held = [this.lens.from, this.lens.to];
        this.lens.begin();
        return true;
      },
      move: (from, to) => this.drag(from.x, to.x),
      end: () => this.lens.follow(),
      click: () => {},
    });
  }

  /** @returns {Scale} */
  scale() {
    return new Scale(0, endOf(this.app.side()), 0, this.element.clientWidth);
  }

  isWhole() {
    const { from, to } = this.app.state;
    return from < 0 && to < 0;
  }

  /** @param {number} x */
  gripAt(x) {
    const scale = this.scale();
    return gripAt(x, scale.x(this.lens.from), scale.x(this.lens.to), this.isWhole());
  }

  /** @param {number} begin where the drag began, px @param {number} now */
  drag(begin, now) {
    const scale = this.scale(), at = Math.max(0, Math.min(scale.to, scale.time(now))), by = (now - begin) * scale.pixel;
    const [from, to] = this.held;
    const ends = { new: [scale.time(begin), at], from: [at, to], to: [from, at], move: [from + by, to + by] }[this.grip];
    this.lens.show(Math.min(...ends), Math.max(...ends));
    this.app.tip(null, 0, 0);
  }

  draw() {
    this.lens.sync();
    const { canvas } = this.canvas, side = this.app.side(), end = endOf(side), { from, to } = this.lens;
    canvas.setAttribute("aria-valuemin", "0");
    canvas.setAttribute("aria-valuemax", String(end * side.unit_ns / 1e9));
    canvas.setAttribute("aria-valuenow", String(from * side.unit_ns / 1e9));
    canvas.setAttribute("aria-valuetext", this.isWhole() ? `all ${moment(side, end, end / 1000)}` : `${moment(side, from, end / 1000)} to ${moment(side, to, end / 1000)}`);
    this.canvas.soon();
  }

  /** What was done, by columns, for each kind of samples. @param {number} columns @returns {{kind: Kind, sums: Float64Array}[]} */
  areas(columns) {
    const { app } = this, { side, rows } = everAt(app), reach = reachIn(app);
    return app.derive("overview", [side.index, columns, app.filters().slice(2)], () => kindsOf(side, rows, app.state.metric).map((kind) => (
      { kind, sums: spread(side, { rows: kind.rows, from: 0, to: endOf(side), columns, amount: amountOf(side, kind), reach }) })));
  }

  paint() {
    if (!this.element.isConnected) return;
    const { app, canvas } = this, context = canvas.begin(STRIP), { theme } = app, { width } = canvas, scale = this.scale();
    hatchUnsampled(context, app.side(), scale, AXIS, STRIP - AXIS, theme);
    drawAxis(context, app.side(), scale, 0, STRIP - AXIS, theme);
    this.areas(Math.max(width, 1)).forEach(({ kind, sums }, i) => {
      context.globalAlpha = i ? 0.65 : 1;
      fillArea(context, sums, 0, STRIP, STRIP - AXIS, largest(sums), colorOfActivity(kind.event, theme.dark));
    });
    context.globalAlpha = 1;
    if (this.isWhole() && !this.lens.timer) return;
    const left = scale.x(this.lens.from), right = scale.x(this.lens.to);
    context.globalAlpha = 0.6;
    context.fillStyle = theme.back;
    context.fillRect(0, 0, left, STRIP);
    context.fillRect(right, 0, width - right, STRIP);
    context.globalAlpha = 1;
    context.fillStyle = theme.accent;
    for (const x of [left, right]) context.fillRect(Math.round(Math.min(Math.max(x - 1, 0), width - 2)), 0, 2, STRIP);
  }

  /** @param {MouseEvent} event */
  hover(event) {
    const { app } = this, { x } = this.canvas.at(event), scale = this.scale(), side = app.side();
    this.canvas.canvas.style.cursor = { new: "crosshair", from: "ew-resize", to: "ew-resize", move: "grab" }[this.gripAt(x)];
    if (event.buttons) return;
    const lines = isUnsampled(side, scale.time(x)) ? [UNSAMPLED] : this.areas(Math.max(this.canvas.width, 1)).map(({ kind, sums }) =>
      `${rateText(side, kind, sums[Math.floor(x)] ?? 0, scale.pixel)}, at most ${rateText(side, kind, largest(sums), scale.pixel)}`);
    app.tip([`at ${moment(side, scale.time(x), scale.pixel)}`, ...lines, this.isWhole() ? "drag to choose a stretch of time" : "double click: everything"], event.clientX, event.clientY);
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  press(event) {
    const { lens } = this, end = endOf(this.app.side()), step = (event.key === "ArrowLeft" ? -1 : 1) * Math.max((lens.to - lens.from) / 20, end / 500);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return lens.press(event);
    if (this.isWhole() && !lens.timer) lens.show(...(event.shiftKey || step > 0 ? /** @type {const} */ ([0, end / 10]) : /** @type {const} */ ([end * 0.9, end])));
    else if (event.shiftKey) lens.show(lens.from, Math.min(end, Math.max(lens.from + end / 1000, lens.to + step)));
    else lens.show(lens.from + step, lens.to + step);
    return true;
  }
}

/**
 * Fills the area below sums, a column for each px.
 * @param {CanvasRenderingContext2D} context @param {ArrayLike<number>} sums @param {number} x @param {number} bottom @param {number} high @param {number} most the sum that is `high` @param {string} color
 */
export function fillArea(context, sums, x, bottom, high, most, color) {
  if (!(most > 0)) return;
  context.fillStyle = color;
  context.beginPath();
  for (let i = 0; i < sums.length; i++) {
    const tall = Math.min(1, sums[i] / most) * high;
    // What is there is seen, however little it is.
    if (sums[i] > 0) context.rect(x + i, bottom - Math.max(tall, 1), 1, Math.max(tall, 1));
  }
  context.fill();
}
