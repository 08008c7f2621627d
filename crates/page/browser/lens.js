// The stretch of time that a view shows, moved by hand. The picture moves at once; the filter follows as fast as the page can apply it.

import { endOf, perSecond } from "./axis.js";

/** @import {App} from "./main.js" */
/** @import {Side} from "./data.js" */
/** @import {State} from "./state.js" */

/** The shortest stretch, in units of time. */
const SHORTEST = 10;
/** Changes that follow each other sooner are one step for "undo", ms. */
const TOGETHER = 1500;
/** How long a hand must rest before the filter follows, ms. */
const REST = 120;

/** The stretch that the filter by time leaves, within the recording. @param {Side} side @param {State} state @returns {[number, number]} */
export function stretchOf(side, state) {
  const end = endOf(side), unit = perSecond(side);
  const from = state.from < 0 ? 0 : Math.min(state.from * unit, end - 1);
  return [from, state.to < 0 ? end : Math.max(from + 1, Math.min(state.to * unit, end))];
}

/** The filter for a stretch: its ends are not filters where they are those of the recording. @param {Side} side @param {number} from @param {number} to @returns {{from: number, to: number}} */
export function filterOf(side, from, to) {
  const unit = perSecond(side), end = endOf(side);
  return { from: from < 1 ? -1 : Math.round(from) / unit, to: to >= end ? -1 : Math.round(to) / unit };
}

/** Fits a stretch into the recording, and keeps its length if that is possible. @param {number} from @param {number} to @param {number} end @returns {[number, number]} */
export function fitted(from, to, end) {
  const length = Math.min(Math.max(to - from, Math.min(SHORTEST, end)), end);
  const begin = Math.max(0, Math.min(from, end - length));
  return [begin, begin + length];
}

export class Lens {
  /** @param {App} app @param {() => void} redraw @param {boolean} isLive the filter follows also while the hand moves */
  constructor(app, redraw, isLive) {
    this.app = app;
    this.redraw = redraw;
    this.isLive = isLive;
    this.from = 0;
    this.to = 1;
    this.key = "";
    this.timer = 0;
    this.followed = -Infinity;
    this.cost = 0;
  }

  keyNow() {
    const { state } = this.app;
    return `${state.from} ${state.to} ${this.app.side().index}`;
  }

  /** Takes over what the state says, unless it says what this lens told it. */
  sync() {
    const key = this.keyNow();
    if (key === this.key) return;
    clearTimeout(this.timer);
    this.timer = 0;
    this.key = key;
    [this.from, this.to] = stretchOf(this.app.side(), this.app.state);
  }

  /** Begins what "undo" takes back as one step. */
  begin() {
    this.followed = -Infinity;
  }

  /** Shows a stretch. @param {number} from @param {number} to */
  show(from, to) {
    [this.from, this.to] = fitted(from, to, endOf(this.app.side()));
    this.redraw();
    if (this.isLive && this.timer) return;
    clearTimeout(this.timer);
    // A page that is slow to follow follows more rarely, so that the hand does not wait.
    this.timer = window.setTimeout(() => this.follow(), this.isLive ? Math.min(400, this.cost * 2) : REST);
  }

  /** Makes what is shown the filter. */
  follow() {
    clearTimeout(this.timer);
    this.timer = 0;
    const { app } = this, begin = performance.now(), isOne = begin - this.followed < TOGETHER && this.key === this.keyNow();
    const changes = filterOf(app.side(), this.from, this.to);
    if (changes.from === app.state.from && changes.to === app.state.to) return;
    this.key = `${changes.from} ${changes.to} ${app.side().index}`;
    if (isOne) app.adjust(changes);
    else app.set(changes);
    this.followed = performance.now();
    this.cost = this.followed - begin;
  }

  /** Shows everything. */
  clear() {
    this.begin();
    this.show(0, endOf(this.app.side()));
    this.follow();
  }

  /** @param {number} at the moment that stays where it is @param {number} factor */
  zoom(at, factor) {
    const length = Math.max((this.to - this.from) * factor, SHORTEST), part = (at - this.from) / (this.to - this.from || 1);
    this.show(at - part * length, at - part * length + length);
  }

  /** @param {number} by a share of what is seen */
  move(by) {
    const length = this.to - this.from;
    this.show(this.from + by * length, this.to + by * length);
  }

  /** Zooms by Ctrl + wheel, moves by Shift + wheel, as all pictures. @param {WheelEvent} event @param {number} at the moment below the pointer @param {number} width px @returns {boolean} */
  wheel(event, at, width) {
    if (event.ctrlKey) this.zoom(at, 1.002 ** event.deltaY);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move((event.deltaX || event.deltaY) / width);
    else return false;
    event.preventDefault();
    return true;
  }

  /** Zooms by + and -, moves by < and >, and shows everything by Escape. @param {KeyboardEvent} event @returns {boolean} */
  press(event) {
    const middle = (this.from + this.to) / 2;
    if (event.key === "+" || event.key === "=") this.zoom(middle, 0.5);
    else if (event.key === "-") this.zoom(middle, 2);
    else if (event.key === "<" || event.key === ",") this.move(-0.25);
    else if (event.key === ">" || event.key === ".") this.move(0.25);
    else if (event.key === "Escape" && (this.app.state.from >= 0 || this.app.state.to >= 0)) this.clear();
    else return false;
    return true;
  }
}

/** Draws a stretch that is being chosen. @param {CanvasRenderingContext2D} context @param {[number, number]} stretch px @param {number} y @param {number} height @param {import("./colors.js").Theme} theme */
export function markStretch(context, [left, right], y, height, theme) {
  context.globalAlpha = 0.25;
  context.fillStyle = theme.accent;
  context.fillRect(left, y, right - left, height);
  context.globalAlpha = 1;
}

/**
 * What a drag does. Places are px from the left and top of the element.
 * @typedef {object} Drags
 * @property {boolean} [isUpright] a drag may also go up or down
 * @property {(x: number, y: number, event: PointerEvent) => boolean} begin returns true if a drag may begin here
 * @property {(from: {x: number, y: number}, to: {x: number, y: number}) => void} move
 * @property {(from: {x: number, y: number}, to: {x: number, y: number}) => void} end
 * @property {(x: number, y: number, event: PointerEvent) => void} click the pointer hardly moved
 */

/** Watches an element for drags and clicks. @param {HTMLElement} element @param {Drags} does */
export function watchDrags(element, does) {
  /** @type {{x: number, y: number}?} */
  let from = null;
  let isDrag = false;
  const at = (/** @type {PointerEvent} */ event) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  element.addEventListener("pointerdown", (event) => {
    const place = at(event);
    if (event.button !== 0 || !does.begin(place.x, place.y, event)) return;
    from = place;
    isDrag = false;
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (!from) return;
    const place = at(event);
    isDrag ||= Math.abs(place.x - from.x) > 3 || does.isUpright === true && Math.abs(place.y - from.y) > 3;
    if (isDrag) does.move(from, place);
  });
  element.addEventListener("pointerup", (event) => {
    if (!from) return;
    const place = at(event), began = from;
    from = null;
    if (isDrag) does.end(began, place);
    else does.click(place.x, place.y, event);
  });
  element.addEventListener("pointercancel", () => { from = null; });
}
