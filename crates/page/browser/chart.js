// The stacks of one thread in the order of time.

import { count, duration, element, percent, things } from "./text.js";
import { Canvas, ROW } from "./canvas.js";
import { isChosen } from "./choose.js";
import { AXIS, Scale, UNSAMPLED, drawAxis, hatchUnsampled, isUnsampled, moment } from "./axis.js";
import { Lens, markStretch, watchDrags } from "./lens.js";
import { reachIn } from "./overview.js";
import { byThread, lanesIn } from "./time.js";
import { boxesOf, laneOf, picksOf, sameIn } from "./lane.js";
import { colorOf, colorOfWait } from "./colors.js";
import { rootsOf } from "./forest.js";
import { nameOf } from "./tree.js";
import { lengthOf, waitCard, waitLines, waitOf } from "./waits.js";

/** @import {App} from "./main.js" */
/** @import {Lane, LaneBox} from "./lane.js" */

export class Chart {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = new Canvas("Stacks in the order of time. Arrow keys move between frames, n and p between threads, + and - zoom, < and > move, Enter shows a frame, Escape shows all time.", () => this.paint());
    this.threads = element("select", { "aria-label": "Thread", title: "thread: n, p", "data-field": "lane", change: () => app.set({ lane: Number(this.threads.value) }) });
    this.note = element("span", {});
    this.element = element("div", { class: "under" }, element("div", { class: "legend" }, element("label", {}, "thread ", this.threads), this.note), this.canvas.element);
    this.lens = new Lens(app, () => this.canvas.soon(), false);
    /** @type {Lane?} */
    this.lane = null;
    this.thread = -1;
    /** @type {number[]} */
    this.order = [];
    /** @type {LaneBox[]} */
    this.boxes = [];
    /** How many samples are in a pixel; if it is more than 1, one of them is drawn. */
    this.perPixel = 0;
    /** Where the keyboard is: a stretch, and a depth. */
    this.at = { stretch: 0, depth: 1 };
    /** @type {[number, number]?} */
    this.marked = null;
    /** @type {string[]} */
    this.colors = [];
    this.colored = "";
    const { canvas } = this.canvas;
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", () => app.tip(null, 0, 0));
    canvas.addEventListener("wheel", (event) => this.lens.wheel(event, this.scale().time(this.canvas.at(event).x), this.canvas.width), { passive: false });
    watchDrags(canvas, {
      begin: () => true,
      move: (from, to) => {
        this.marked = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
        app.tip(null, 0, 0);
        this.canvas.soon();
      },
      end: (from, to) => {
        const scale = this.scale(), times = [scale.time(from.x), scale.time(to.x)];
        this.marked = null;
        this.lens.begin();
        this.lens.show(Math.min(...times), Math.max(...times));
        this.lens.follow();
      },
      click: (x, y) => this.click(x, y),
    });
  }

  scale() {
    return new Scale(this.lens.from, this.lens.to, 0, this.canvas.element.clientWidth);
  }

  draw() {
    const { app } = this, { state } = app, side = app.side(), { ever, waits } = lanesIn(app);
    this.lens.sync();
    const weight = byThread(ever, side.threads.length), waited = byThread(waits, side.threads.length);
    const counts = (/** @type {number} */ thread) => (weight[thread] > 0 || waited[thread] > 0) && isChosen(side.threads[thread], state);
    this.order = [...side.threads.keys()].filter(counts).sort((a, b) => weight[b] - weight[a] || waited[b] - waited[a] || a - b);
    this.thread = this.order.includes(state.lane) ? state.lane : this.order[0] ?? -1;
    const whole = weight.reduce((sum, it) => sum + it, 0) || 1;
    this.threads.replaceChildren(...this.order.map((thread) => element("option", { value: thread, selected: thread === this.thread }, `${side.threads[thread].comm} ${side.threads[thread].key}: ${percent(weight[thread] / whole)}`)));
    const { hide, collapse, merge } = state;
    this.lane = this.thread < 0 ? null : app.derive("lane", [side.index, this.thread, app.filters().slice(2), hide, collapse, merge], () => {
      const rows = ever.rows.map((it, row) => it | (waits ? waits.rows[row] : 0));
      return laneOf(app.page, side, this.thread, rows, reachIn(app).intervals, state, app.paths());
    });
    this.note.textContent = this.lane ? `${things(this.lane.sample.length, "sample")} of this thread; how long a function ran is an estimate from one sample to the next${waits ? ", how long it waited is measured" : ""}` : "no samples are left";
    this.canvas.soon();
  }

  paint() {
    const { app, canvas, lane } = this;
    if (!this.element.isConnected) return;
    const context = canvas.begin(AXIS + ((lane?.deepest ?? 0) + 1) * ROW), { theme } = app, scale = this.scale();
    if (!lane) return;
    hatchUnsampled(context, app.side(), scale, AXIS, canvas.height, theme);
    const { picks, inside, perPixel } = picksOf(lane, scale);
    const rows = [this.depthAt(AXIS), this.depthAt(canvas.height)];
    this.perPixel = perPixel;
    this.boxes = boxesOf(lane, picks, Math.min(...rows), Math.max(...rows));
    const { matches } = app.found(), isSearched = app.state.search !== "", functions = app.page.functions.length;
    const here = this.boxHere();
    for (const box of this.boxes) {
      const label = lane.tree.label[box.node], y = this.y(box.depth);
      const isFaded = isSearched && (box.isWait || !(label < functions && matches[label]));
      context.globalAlpha = isFaded ? 0.3 : 1;
      context.fillStyle = this.color(box);
      context.fillRect(box.x, y, Math.max(box.width - (box.width > 2 ? 0.5 : 0), 0.5), ROW - 1);
      context.globalAlpha = 1;
      const title = this.title(box);
      if (box.width > 24) canvas.label(title, this.app.page.forms.get(title), box.x, y, box.width, isFaded ? theme.faint : theme.text);
      if (box !== here || document.activeElement !== canvas.canvas) continue;
      context.strokeStyle = theme.accent;
      context.lineWidth = 2;
      context.strokeRect(box.x + 1, y + 1, Math.max(box.width - 2, 1), ROW - 3);
    }
    context.fillStyle = theme.back;
    context.fillRect(0, 0, canvas.width, AXIS);
    drawAxis(context, app.side(), scale, 0, 0, theme);
    if (this.marked) markStretch(context, this.marked, 0, canvas.height, theme);
    app.tell("narrow", perPixel > 1 ? `1 of ~${rough(perPixel)} samples per pixel is drawn: zoom in` : `all ${things(inside, "sample")} of this stretch are drawn`);
  }

  /** @param {number} depth @returns {number} px */
  y(depth) {
    const deepest = (this.lane?.deepest ?? 0) + 1, isUp = this.app.state.up === "bottom";
    const ground = isUp ? Math.max(0, this.canvas.height - AXIS - deepest * ROW) : 0;
    return AXIS + ground + (isUp ? deepest - depth : depth - 1) * ROW - this.canvas.top;
  }

  /** @param {number} y px @returns {number} */
  depthAt(y) {
    const first = this.y(1), row = Math.floor((y - first) / ROW);
    return this.app.state.up === "bottom" ? 1 - row : 1 + row;
  }

  /** @param {LaneBox} box @returns {string} */
  title(box) {
    const lane = /** @type {Lane} */ (this.lane), side = this.app.side();
    return box.isWait ? `waits: ${waitOf(side, lane.sample[box.first]).kind}` : nameOf(this.app.page, lane.tree, box.node);
  }

  /** @param {LaneBox} box @returns {string} */
  color(box) {
    const { app } = this, lane = /** @type {Lane} */ (this.lane), { dark } = app.theme;
    if (box.isWait) return colorOfWait(waitOf(app.side(), lane.sample[box.first]).kind, dark);
    const mode = app.state.color === "image" ? "image" : "kind", key = `${mode} ${dark}`, label = lane.tree.label[box.node];
    if (key !== this.colored) [this.colors, this.colored] = [[], key];
    return this.colors[label] ??= colorOf(app.page.functions[label], nameOf(app.page, lane.tree, box.node), mode, app.isInlined(label), dark);
  }

  /** @param {number} x @param {number} y @returns {LaneBox | undefined} */
  boxAt(x, y) {
    if (y < AXIS) return undefined;
    const depth = this.depthAt(y);
    return this.boxes.find((box) => box.depth === depth && x >= box.x && x < box.x + Math.max(box.width, 1));
  }

  /** @returns {LaneBox | undefined} */
  boxHere() {
    const { stretch, depth } = this.at;
    return this.boxes.find((box) => box.depth === depth && stretch >= box.first && stretch <= box.last);
  }

  /** @param {MouseEvent} event */
  hover(event) {
    if (event.buttons) return;
    const { x, y } = this.canvas.at(event), box = this.boxAt(x, y);
    this.canvas.canvas.style.cursor = box ? "pointer" : "crosshair";
    const isEmpty = !box && isUnsampled(this.app.side(), this.scale().time(x));
    this.app.tip(box ? this.lines(box) : isEmpty ? [UNSAMPLED] : null, event.clientX, event.clientY);
  }

  /** @param {LaneBox} box @returns {string[]} */
  lines(box) {
    const { app } = this, lane = /** @type {Lane} */ (this.lane), side = app.side(), sample = lane.sample[box.first];
    if (box.isWait) return waitLines(app, { x: 0, width: 0, kind: waitOf(side, sample).kind, sample, number: 1 });
    const func = app.page.functions[lane.tree.label[box.node]], from = lane.begin[box.first], to = lane.end[box.last];
    const waits = lane.isWait.subarray(box.first, box.last + 1).reduce((sum, it) => sum + it, 0), number = box.last - box.first + 1;
    const isMeasured = waits === number && this.perPixel <= 1;
    return [
      nameOf(app.page, lane.tree, box.node),
      ...(func?.image ? [func.image] : []),
      ...(func?.reason ? [`no name: ${func.reason}`] : []),
      `${isMeasured ? "" : "about "}${isMeasured && number === 1 ? lengthOf(side, sample) : duration((to - from) * side.unit_ns)}, from ${moment(side, from)} to ${moment(side, to)}`,
      this.perPixel > 1 ? `${things(number, "sample")} meanwhile, of which 1 of ~${rough(this.perPixel)} is drawn` : `${things(number, "sample")}${waits ? `, ${things(waits, "wait")} among them` : ""}`,
    ];
  }

  /** @param {number} x @param {number} y */
  click(x, y) {
    this.canvas.canvas.focus();
    const box = this.boxAt(x, y);
    if (box) this.show(box);
    this.canvas.soon();
  }

  /** Shows a frame or a wait beside the chart. @param {LaneBox} box */
  show(box) {
    const { app } = this, lane = /** @type {Lane} */ (this.lane), tree = app.tree(), side = app.side();
    this.at = { stretch: box.first, depth: box.depth };
    let begin = 0;
    if (app.state.root !== "none") {
      const label = app.page.functions.length + rootsOf([side], app.state.root).ofThread[0][this.thread];
      begin = Array.from(tree.children(0)).find((it) => tree.label[it] === label) ?? -1;
    }
    const same = begin < 0 ? { node: 0, isWhole: false } : sameIn(lane.tree, box.node, tree, begin);
    // The waits of a page that does not show their event are not in the tree.
    if (box.isWait || !same.isWhole) app.details.note(lane.isWait[box.first] ? waitCard(app, lane.sample[box.first]) : this.card(box));
    else app.inspect(tree, same.node);
  }

  /** What is known of a frame that the filters leave out. @param {LaneBox} box @returns {Node[]} */
  card(box) {
    const [name, ...rest] = this.lines(box);
    return [element("h2", {}, name), ...rest.map((line) => element("p", {}, line)), element("p", {}, "The filters leave these samples out.")];
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    const { lane, at } = this;
    if (!lane) return false;
    const out = this.app.state.up === "bottom" ? "ArrowDown" : "ArrowUp", here = this.boxHere();
    // The keyboard begins at what is seen.
    if (event.key.startsWith("Arrow") && !here && this.boxes.length) {
      this.go(this.boxes.reduce((first, box) => Math.min(first, box.first), Infinity), 1);
      return true;
    }
    if (event.key === "n" || event.key === "p") {
      const next = this.order[this.order.indexOf(this.thread) + (event.key === "n" ? 1 : -1)];
      if (next !== undefined) this.app.set({ lane: next });
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") this.go(at.stretch, at.depth + (event.key === out ? -1 : 1));
    else if (event.key === "ArrowLeft") this.go((here?.first ?? at.stretch) - 1, at.depth);
    else if (event.key === "ArrowRight") this.go((here?.last ?? at.stretch) + 1, at.depth);
    else if (event.key === "Enter" && here) this.show(here);
    else return this.lens.press(event);
    return true;
  }

  /** Moves the keyboard to a frame, and the chart with it. @param {number} stretch @param {number} depth */
  go(stretch, depth) {
    const lane = /** @type {Lane} */ (this.lane), { from, to } = this.lens;
    const isSeen = lane.end[stretch] > from && lane.begin[stretch] < to;
    const next = Math.max(0, Math.min(lane.sample.length - 1, stretch));
    const deepest = lane.depth[lane.node[next]] + lane.isWait[next];
    this.at = { stretch: next, depth: Math.max(1, Math.min(deepest, depth)) };
    if (!isSeen && stretch === next) this.lens.show(lane.begin[next] - (to - from) / 2, lane.begin[next] + (to - from) / 2);
    const y = this.y(this.at.depth);
    if (y < AXIS || y + ROW > this.canvas.height) this.canvas.element.scrollTop += y - this.canvas.height / 2;
    this.canvas.soon();
    requestAnimationFrame(() => {
      const box = this.boxHere();
      if (box) this.app.tell("at", this.lines(box).join(" · "));
    });
  }
}

/** @param {number} number @returns {string} */
function rough(number) {
  return number < 10 ? number.toFixed(1) : count(number);
}
