// The flame graph: every frame at least half a pixel wide is drawn, and what is narrower is counted where it lies.

import { amount, percent, short, things } from "./text.js";
import { Canvas, ROW } from "./canvas.js";
import { colorOf, colorOfChange, colorOfDoubt, colorOfWait } from "./colors.js";
import { nameOf } from "./tree.js";

/** @import {Calls} from "./tree.js" */
/** @import {App} from "./main.js" */

/** Narrower frames are not drawn one by one, px. */
const NARROW = 0.5;
/** How long it takes to move to another part of the graph, ms. */
const MOVE = 150;

/** Frames that are drawn, or a run of frames that are too narrow. @typedef {{node: number, x: number, width: number, depth: number, hidden: number}} Box */
/** The part of the graph that is seen: the weight on its left, and how much is seen. @typedef {{left: number, span: number}} Window */

export class Flame {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = new Canvas("Flame graph. Arrow keys move between frames, Enter zooms in, Escape zooms out.", () => this.paint());
    this.element = this.canvas.element;
    /** @type {Box[]} */
    this.boxes = [];
    /** @type {Window?} */
    this.window = null;
    this.at = 0;
    this.deepest = 0;
    /** @type {Calls?} */
    this.calls = null;
    /** @type {string[]} */
    this.colors = [];
    this.colored = "";
    const { canvas } = this.canvas;
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", () => app.tip(null, 0, 0));
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** Shows the state: another tree, or another part of it. */
  draw() {
    const { app } = this, calls = app.calls();
    const isNew = calls !== this.calls;
    this.calls = calls;
    const node = app.zoomed();
    const goal = this.windowOf(node);
    if (isNew || !this.window) {
      this.window = goal;
      this.at = node;
      app.tell("at", "");
    }
    this.moveTo(goal);
  }

  /** Finds where a node lies. @param {number} node @returns {Window} */
  windowOf(node) {
    const calls = /** @type {Calls} */ (this.calls);
    let left = 0;
    for (let at = node; at !== 0; at = calls.parent[at]) {
      for (const sibling of list(calls.children(calls.parent[at]))) {
        if (sibling === at) break;
        left += calls.total[sibling];
      }
    }
    return { left, span: calls.total[node] };
  }

  /** @param {Window} goal */
  moveTo(goal) {
    const from = this.window ?? goal, begin = performance.now();
    this.goal = goal;
    const step = () => {
      if (this.goal !== goal) return;
      const part = Math.min(1, (performance.now() - begin) / MOVE), eased = 1 - (1 - part) ** 3;
      this.window = { left: from.left + (goal.left - from.left) * eased, span: from.span + (goal.span - from.span) * eased };
      this.paint();
      if (part < 1) requestAnimationFrame(step);
    };
    if (from.left === goal.left && from.span === goal.span) this.canvas.soon();
    else step();
  }

  /** Finds what is drawn. */
  lay() {
    const calls = /** @type {Calls} */ (this.calls), { left, span } = /** @type {Window} */ (this.window);
    const width = this.element.clientWidth, scale = width / (span || 1);
    /** @type {Box[]} */
    const boxes = [];
    this.deepest = 0;
    const work = [{ node: 0, x: -left * scale, depth: 0 }];
    for (let next = work.pop(); next; next = work.pop()) {
      const { node, x, depth } = next;
      boxes.push({ node, x, width: calls.total[node] * scale, depth, hidden: 0 });
      this.deepest = Math.max(this.deepest, depth);
      let at = x;
      /** @type {Box?} */
      let run = null;
      for (const child of list(calls.children(node))) {
        const wide = calls.total[child] * scale;
        if (at >= width) break;
        if (at + wide > 0) {
          if (wide >= NARROW) {
            work.push({ node: child, x: at, depth: depth + 1 });
            run = null;
          } else if (run) {
            run.width = at + wide - run.x;
            run.hidden++;
          } else {
            run = { node, x: at, width: wide, depth: depth + 1, hidden: 1 };
            boxes.push(run);
            this.deepest = Math.max(this.deepest, depth + 1);
          }
        }
        at += wide;
      }
    }
    this.boxes = boxes;
  }

  paint() {
    if (!this.calls || !this.element.isConnected) return;
    const { app, canvas } = this;
    this.lay();
    const context = canvas.begin((this.deepest + 1) * ROW);
    const { theme } = app, { matches } = app.found(), isSearched = app.state.search !== "";
    const calls = this.calls, functions = app.page.functions.length;
    const { top } = canvas;
    let narrow = 0;
    for (const box of this.boxes) {
      if (box.hidden) narrow += box.hidden;
      const y = this.y(box.depth, top);
      if (y + ROW < 0 || y > canvas.height) continue;
      const x = Math.max(box.x, 0), right = Math.min(box.x + box.width, canvas.width);
      if (box.hidden) {
        context.fillStyle = theme.line;
        context.fillRect(x, y, Math.max(right - x, 0.5), ROW - 1);
        continue;
      }
      const label = calls.label[box.node];
      const isFaded = isSearched && !(label < functions && matches[label]);
      context.globalAlpha = isFaded ? 0.3 : 1;
      context.fillStyle = this.color(box.node);
      context.fillRect(x, y, Math.max(right - x - (right - x > 2 ? 0.5 : 0), 0.5), ROW - 1);
      context.globalAlpha = 1;
      if (right - x > 24) canvas.label(this.title(box.node), app.page.forms.get(this.name(box.node)), box.x, y, box.width, isFaded ? theme.faint : theme.text);
      if (box.node === this.at && document.activeElement === canvas.canvas) {
        context.strokeStyle = theme.accent;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(right - x - 2, 1), ROW - 3);
      }
    }
    app.tell("narrow", narrow ? `${things(narrow, "frame")} narrower than half a pixel: grey; zoom in, or see the table` : "");
  }

  /** @param {number} depth @param {number} [seen] how far the picture is scrolled, for loops: to ask takes long @returns {number} */
  y(depth, seen = this.canvas.top) {
    const row = this.app.state.up === "bottom" ? this.deepest - depth : depth;
    // A graph that is lower than its place stands on the ground.
    const ground = this.app.state.up === "bottom" ? Math.max(0, this.canvas.height - (this.deepest + 1) * ROW) : 0;
    return ground + row * ROW - seen;
  }

  /** @param {number} node @returns {string} */
  name(node) {
    return nameOf(this.app.page, /** @type {Calls} */ (this.calls), node);
  }

  /** @param {number} node @returns {string} */
  title(node) {
    if (node === 0) return this.app.whole();
    const name = this.name(node);
    const func = this.app.page.functions[/** @type {Calls} */ (this.calls).label[node]];
    return func?.image && !func.name.includes("+0x") && this.app.state.color === "image" ? `${name} (${short(func.image)})` : name;
  }

  /** @param {number} node @returns {string} */
  color(node) {
    const { app } = this, calls = /** @type {Calls} */ (this.calls), { dark } = app.theme;
    if (app.state.color === "change") {
      const { change, isChance } = app.changeOf(calls, node);
      return colorOfChange(change, isChance, dark);
    }
    if (node === 0) return app.theme.line;
    if (calls === app.tree() && app.state.color === "trust") return colorOfDoubt(app.doubtOf(calls, node), dark);
    const wait = calls === app.tree() && app.state.color === "wait" ? app.kindsOfWaits()[node] : "";
    if (wait) return colorOfWait(wait, dark);
    const key = `${app.state.color} ${dark} ${calls.roots.length} ${app.state.side}`;
    if (key !== this.colored) [this.colors, this.colored] = [[], key];
    const label = calls.label[node];
    return this.colors[label] ??= colorOf(app.page.functions[label], nameOf(app.page, calls, node), app.state.color, app.isInlined(label), dark);
  }

  /** @param {MouseEvent} event @returns {Box | undefined} */
  boxAt(event) {
    const { x, y } = this.canvas.at(event), seen = this.canvas.top;
    return this.boxes.find((box) => {
      const top = this.y(box.depth, seen);
      return y >= top && y < top + ROW && x >= box.x && x < box.x + Math.max(box.width, 1);
    });
  }

  /** @param {MouseEvent} event */
  hover(event) {
    const box = this.boxAt(event);
    this.canvas.canvas.style.cursor = box ? "pointer" : "default";
    this.app.tip(box ? this.lines(box) : null, event.clientX, event.clientY);
  }

  /** @param {Box} box @returns {string[]} */
  lines({ node, hidden }) {
    const { app } = this, calls = /** @type {Calls} */ (this.calls), whole = calls.total[0] || 1;
    if (hidden) return [`${things(hidden, "frame")} too narrow to draw`, `called by ${nameOf(app.page, calls, node)}: click to zoom there`];
    const { unit } = app.chosen(), func = app.page.functions[calls.label[node]];
    const own = calls.own[node];
    return [
      nameOf(app.page, calls, node),
      ...(func?.image ? [func.image] : []),
      ...(func?.reason ? [`no name: ${func.reason}`] : []),
      `${percent(calls.total[node] / whole)} · ${amount(calls.total[node], unit)}` + (own ? ` · ${calls.ended} ${percent(own / whole)}` : ""),
      ...this.remarks(node),
      ...app.changeLines(calls, node),
    ];
  }

  /** What colors tell of a node. @param {number} node @returns {string[]} */
  remarks(node) {
    const { app } = this, calls = /** @type {Calls} */ (this.calls), doubt = app.doubtOf(calls, node);
    const wait = calls === app.tree() && app.state.color === "wait" ? app.kindsOfWaits()[node] : "";
    return [...(doubt ? [doubtful(doubt)] : []), ...(wait ? [`most of its waits: ${wait}`] : [])];
  }

  /** @param {MouseEvent} event */
  click(event) {
    const box = this.boxAt(event);
    if (!box) return;
    this.canvas.canvas.focus();
    this.choose(box.node);
  }

  /** Zooms to a node, and shows it beside the graph. @param {number} node */
  choose(node) {
    this.at = node;
    this.app.inspect(/** @type {Calls} */ (this.calls), node);
    this.app.zoom(node);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    const now = /** @type {Window} */ (this.window), whole = /** @type {Calls} */ (this.calls).total[0];
    const { x } = this.canvas.at(event), at = now.left + x / this.canvas.width * now.span;
    const span = event.ctrlKey ? Math.min(whole, now.span * 1.002 ** event.deltaY) : now.span;
    const moved = event.ctrlKey ? at - x / this.canvas.width * span : now.left + (event.deltaX || event.deltaY) / this.canvas.width * span;
    this.window = { left: Math.max(0, Math.min(whole - span, moved)), span };
    this.goal = this.window;
    this.canvas.soon();
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    const calls = /** @type {Calls} */ (this.calls), up = this.app.state.up === "bottom";
    const siblings = list(this.at ? calls.children(calls.parent[this.at]) : []);
    const place = siblings.indexOf(this.at);
    const moves = {
      [up ? "ArrowUp" : "ArrowDown"]: heaviest(calls, this.at) ?? this.at,
      [up ? "ArrowDown" : "ArrowUp"]: this.at ? calls.parent[this.at] : 0,
      ArrowLeft: siblings[place - 1] ?? this.at,
      ArrowRight: siblings[place + 1] ?? this.at,
    };
    if (event.key === "Enter") this.choose(this.at);
    else if (event.key === "Escape" && this.app.state.zoom) this.choose(0);
    else if (event.key in moves) {
      this.at = moves[event.key];
      this.app.inspect(calls, this.at);
      this.app.tell("at", this.lines({ node: this.at, x: 0, width: 1, depth: 0, hidden: 0 }).join(" · "));
      this.reveal();
    } else return false;
    return true;
  }

  /** Scrolls to the frame at which the keyboard is. */
  reveal() {
    const calls = /** @type {Calls} */ (this.calls);
    let depth = 0;
    for (let at = this.at; at !== 0; at = calls.parent[at]) depth++;
    const y = this.y(depth);
    if (y < 0 || y + ROW > this.canvas.height) this.element.scrollTop += y - this.canvas.height / 2;
    this.canvas.soon();
  }
}

/** @param {number} share @returns {string} */
export function doubtful(share) {
  return `in ${percent(share)} of these samples the user stack is cut, guessed, or reaches no root`;
}

/** @param {ArrayLike<number>} numbers @returns {number[]} */
function list(numbers) {
  return /** @type {number[]} */ (/** @type {unknown} */ (numbers));
}

/** @param {Calls} calls @param {number} node @returns {number | undefined} */
function heaviest(calls, node) {
  let best;
  for (const child of list(calls.children(node))) if (best === undefined || calls.total[child] > calls.total[best]) best = child;
  return best;
}

/** Says how many samples a graph has. @param {import("./choose.js").Chosen} chosen @returns {string} */
export function wholeOf(chosen) {
  const all = things(chosen.samples, "sample");
  return chosen.unit === "samples" ? `all: ${all}` : `all: ${amount(chosen.total, chosen.unit)} in ${all}`;
}
