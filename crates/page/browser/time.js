// Threads over time: a track for each counter, process and thread, with the waits of threads below what they did.

import { element, things } from "./text.js";
import { Canvas } from "./canvas.js";
import { choose } from "./choose.js";
import { amountOf, kindsOf, spread } from "./activity.js";
import { AXIS, Scale, UNSAMPLED, drawAxis, hatchUnsampled, isUnsampled, moment } from "./axis.js";
import { Lens, markStretch, watchDrags } from "./lens.js";
import { reachIn } from "./overview.js";
import { BAR, legendOf, paintTrack, trackLines } from "./band.js";
import { tracksOf } from "./tracks.js";
import { layWaits, waitCard, waitEvents, waitLines, waitLists } from "./waits.js";
import { counterText, valuesOf } from "./counters.js";

/** @import {App} from "./main.js" */
/** @import {Chosen} from "./choose.js" */
/** @import {Kind} from "./activity.js" */
/** @import {Track} from "./tracks.js" */
/** @import {WaitBar} from "./waits.js" */

/** The heights of tracks, px; a thread with waits is higher by their `BAR`. */
const HEIGHTS = { group: 34, counter: 34, process: 28, thread: 22, note: 18 };

/** What is drawn of a track; `below` is the height of its waits. @typedef {{areas: {kind: Kind, sums: Float64Array}[], waits: WaitBar[], below: number, values: Float64Array?}} Picture */

/** The samples of all threads and times, and the waits, each null if there are none. @param {App} app @returns {{ever: Chosen, waits: Chosen?}} */
export function lanesIn(app) {
  const side = app.side(), { state } = app, all = { ...state, from: -1, to: -1, process: [], thread: [] };
  return app.derive(`lanes ${side.index}`, [state.event, state.image, state.focus, state.without, state.metric], () => {
    const event = waitEvents(side, state);
    return { ever: choose(app.page, side, all), waits: event.length ? choose(app.page, side, { ...all, event, metric: "weight" }) : null };
  });
}

/** Adds the weights of rows up by thread. @param {Chosen?} chosen @param {number} threads @returns {Float64Array} */
export function byThread(chosen, threads) {
  const sums = new Float64Array(threads);
  if (!chosen) return sums;
  const { weight, side: { row_thread } } = chosen;
  for (let row = 0; row < weight.length; row++) sums[row_thread[row]] += weight[row];
  return sums;
}

export class TimeView {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = new Canvas("Threads over time. Up and down move between tracks, left and right fold them, Enter chooses one, n and p move between waits, + and - zoom.", () => this.paint());
    this.legend = element("div", { class: "legend" });
    this.element = element("div", { class: "under" }, this.legend, this.canvas.element);
    this.lens = new Lens(app, () => this.canvas.soon(), false);
    /** @type {Track[]} */
    this.tracks = [];
    /** Where each track begins, and where the last one ends. */
    this.tops = new Float64Array(1);
    /** The process or thread that was chosen last. */
    this.wanted = "";
    this.at = 0;
    /** The wait that was chosen. */
    this.wait = -1;
    /** @type {[number, number]?} */
    this.marked = null;
    /** @type {Map<string, Picture>} */
    this.pictures = new Map();
    this.pictured = "";
    /** @type {Kind[]} */
    this.kinds = [];
    const { canvas } = this.canvas;
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", () => app.tip(null, 0, 0));
    canvas.addEventListener("wheel", (event) => this.lens.wheel(event, this.scale().time(this.canvas.at(event).x), this.scale().width), { passive: false });
    watchDrags(canvas, {
      begin: () => true,
      move: (from, to) => this.mark(from.x, to.x),
      end: (from, to) => this.choose(from.x, to.x),
      click: (x, y, event) => this.click(x, y, event),
    });
  }

  /** The width of the names, px. */
  get gutter() {
    return Math.min(280, Math.max(120, this.canvas.element.clientWidth * 0.28));
  }

  scale() {
    return new Scale(this.lens.from, this.lens.to, this.gutter, this.canvas.element.clientWidth - this.gutter);
  }

  draw() {
    const { app } = this, side = app.side(), { ever, waits } = lanesIn(app);
    this.lens.sync();
    const key = [side.index, app.state.event, app.state.image, app.state.focus, app.state.without, app.state.metric];
    this.kinds = app.derive("track kinds", key, () => kindsOf(side, ever.rows, app.state.metric).filter((kind) => kind.event >= 0));
    this.tracks = app.derive("tracks", [key, app.state.folds], () => tracksOf(side, byThread(ever, side.threads.length), byThread(waits, side.threads.length), new Set(app.state.folds)));
    // What is not chosen stays in sight, and its share is 0.
    const chosen = byThread(app.chosen(), side.threads.length);
    this.tracks = this.tracks.map((track) => ({ ...track, weight: track.threads.reduce((sum, thread) => sum + chosen[thread], 0) }));
    this.tops = new Float64Array(this.tracks.length + 1);
    this.tracks.forEach((track, i) => { this.tops[i + 1] = this.tops[i] + HEIGHTS[track.kind] + this.below(track); });
    this.at = Math.min(this.at, this.tracks.length - 1);
    this.whole = this.tracks.reduce((sum, track) => sum + (track.kind === "process" ? track.weight : 0), 0);
    // Keys begin at what was chosen elsewhere.
    const wanted = app.state.thread[0] ?? app.state.process[0] ?? "", place = this.tracks.findIndex((track) => track.key === wanted);
    if (wanted !== this.wanted && place >= 0) this.go(place);
    this.wanted = wanted;
    this.legend.replaceChildren(...legendOf(app, this.kinds, waits));
    this.canvas.soon();
  }

  waitLists() {
    const side = this.app.side();
    return this.app.derive(`waits ${side.index}`, [], () => waitLists(side));
  }

  /** Returns how high the waits of a track are: those of several threads are not drawn in one line. @param {Track} track */
  below({ threads }) {
    const { begin } = this.waitLists();
    return threads.length === 1 && begin[threads[0] + 1] > begin[threads[0]] ? BAR : 0;
  }

  /** Returns what is drawn of a track; it is made when the track is seen. @param {Track} track @returns {Picture} */
  picture(track) {
    const { app } = this, side = app.side(), scale = this.scale(), columns = Math.max(1, Math.round(scale.width));
    const pictured = JSON.stringify([side.index, this.lens.from, this.lens.to, columns, app.filters().slice(2)]);
    if (pictured !== this.pictured) this.pictures.clear();
    this.pictured = pictured;
    const key = `${track.kind} ${track.key} ${track.threads[0]}`, known = this.pictures.get(key);
    if (known) return known;
    const { waits } = lanesIn(app), reach = reachIn(app), { from, to } = scale;
    const areas = track.threads.length ? this.kinds.map((kind) => ({ kind, sums: spread(side, { rows: kind.rows, threads: track.threads, from, to, columns, amount: amountOf(side, kind), reach }) })) : [];
    const below = this.below(track);
    const made = {
      areas,
      below,
      waits: below && waits ? layWaits(side, this.waitLists(), track.threads[0], waits.rows, scale) : [],
      values: track.counter ? valuesOf(side, track.counter, scale) : null,
    };
    this.pictures.set(key, made);
    return made;
  }

  paint() {
    if (!this.element.isConnected) return;
    const { app, canvas, tops } = this, context = canvas.begin(tops[this.tracks.length] + AXIS), { theme } = app, scale = this.scale();
    hatchUnsampled(context, app.side(), scale, AXIS, canvas.height, theme);
    drawAxis(context, app.side(), scale, 0, canvas.height, theme);
    for (let i = this.trackAt(AXIS); i < this.tracks.length && this.y(i) < canvas.height; i++) {
      const track = this.tracks[i];
      const isAt = i === this.at && document.activeElement === canvas.canvas;
      paintTrack(this, track, this.picture(track), this.y(i), tops[i + 1] - tops[i], scale, isAt);
    }
    context.fillStyle = theme.back;
    context.fillRect(0, 0, canvas.width, AXIS);
    drawAxis(context, app.side(), scale, 0, 0, theme);
    if (this.marked) markStretch(context, this.marked, 0, canvas.height, theme);
  }

  /** @param {number} i @returns {number} px from the top of the canvas */
  y(i) {
    return AXIS + this.tops[i] - this.canvas.top;
  }

  /** @param {number} y px @returns {number} the track there; the number of tracks if there is none */
  trackAt(y) {
    let low = 0, high = this.tracks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.y(middle + 1) <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {Track} track @param {number} x @param {number} y from the top of the track @returns {WaitBar | undefined} */
  waitAt(track, x, y) {
    if (y < HEIGHTS[track.kind] - 1) return undefined;
    return this.picture(track).waits.findLast((bar) => x >= bar.x - 1 && x < bar.x + bar.width + 1);
  }

  /** @param {MouseEvent} event */
  hover(event) {
    if (event.buttons) return;
    const { app } = this, { x, y } = this.canvas.at(event), i = this.trackAt(y), track = this.tracks[i];
    const isThere = track !== undefined && y >= AXIS, bar = isThere ? this.waitAt(track, x, y - this.y(i)) : undefined;
    this.canvas.canvas.style.cursor = isThere ? "pointer" : "crosshair";
    app.tip(bar ? waitLines(app, bar) : isThere ? this.lines(track, x) : null, event.clientX, event.clientY);
  }

  /** @param {Track} track @param {number} x @returns {string[]} */
  lines(track, x) {
    const { app } = this, scale = this.scale();
    if (x < this.gutter) return [track.name, ...trackLines(app, track, this.whole ?? 0)];
    const { areas, values } = this.picture(track), column = Math.floor(x - this.gutter);
    const when = `at ${moment(app.side(), scale.time(x), scale.pixel)}`;
    if (track.counter && values) return [track.name, `${when}: ${counterText(track.counter, values[column])}`];
    if (isUnsampled(app.side(), scale.time(x))) return [track.name, when, UNSAMPLED];
    return [track.name, when, ...trackLines(app, track, this.whole ?? 0, { areas, column, length: scale.pixel, time: scale.time(x) })];
  }

  /** @param {number} from px @param {number} to px */
  mark(from, to) {
    const inside = (/** @type {number} */ x) => Math.max(this.gutter, Math.min(this.canvas.width, x));
    this.marked = [inside(Math.min(from, to)), inside(Math.max(from, to))];
    this.app.tip(null, 0, 0);
    this.canvas.soon();
  }

  /** @param {number} from px @param {number} to px */
  choose(from, to) {
    this.mark(from, to);
    const scale = this.scale(), [left, right] = /** @type {[number, number]} */ (this.marked);
    this.marked = null;
    if (right <= left) return this.canvas.soon();
    this.lens.begin();
    this.lens.show(scale.time(left), scale.time(right));
    this.lens.follow();
  }

  /** @param {number} x @param {number} y @param {PointerEvent} event */
  click(x, y, event) {
    const i = this.trackAt(y), track = this.tracks[i];
    if (!track || y < AXIS) return;
    this.canvas.canvas.focus();
    this.at = i;
    const bar = this.waitAt(track, x, y - this.y(i));
    if (bar) this.showWait(bar.sample);
    else if (track.isOpen !== undefined && (track.kind === "group" || x < 22 + 14 * track.depth)) this.fold(track);
    else this.only(track, event.ctrlKey || event.metaKey);
    this.canvas.soon();
  }

  /** @param {number} sample */
  showWait(sample) {
    this.wait = sample;
    this.app.details.note(waitCard(this.app, sample));
    this.canvas.soon();
  }

  /** @param {Track} track */
  fold(track) {
    const { folds } = this.app.state;
    this.app.set({ folds: folds.includes(track.key) ? folds.filter((it) => it !== track.key) : [...folds, track.key] });
  }

  /** Lets only a thread or a process count, or everything again. @param {Track} track @param {boolean} adds to those that count already */
  only(track, adds) {
    const { app } = this, field = track.kind;
    if (field !== "thread" && field !== "process") return;
    const now = app.state[field], has = now.includes(track.key), rest = adds ? now.filter((it) => it !== track.key) : [];
    const other = adds ? {} : { thread: [], process: [] };
    app.set({ ...other, [field]: has ? rest : [...rest, track.key], zoom: "" });
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    const track = this.tracks[this.at], page = Math.max(1, Math.floor(this.canvas.height / 40));
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.tracks.length, End: this.tracks.length };
    if (!track) return false;
    if (event.key in moves) this.go(this.at + moves[event.key]);
    else if (event.key === "Enter" && track.kind === "group") this.fold(track);
    else if (event.key === "Enter") this.only(track, event.shiftKey);
    else if (event.key === "ArrowRight" && track.isOpen === false || event.key === "ArrowLeft" && track.isOpen) this.fold(track);
    else if (event.key === "ArrowLeft" && track.depth) this.go(this.tracks.findLastIndex((it, i) => i < this.at && it.depth < track.depth));
    else if (event.key === "n" || event.key === "p") this.nextWait(track, event.key === "n" ? 1 : -1);
    else return this.lens.press(event);
    return true;
  }

  /** @param {number} to */
  go(to) {
    this.at = Math.max(0, Math.min(this.tracks.length - 1, to));
    const { element: scroll, height } = this.canvas, y = this.y(this.at), tall = this.tops[this.at + 1] - this.tops[this.at];
    if (y < AXIS) scroll.scrollTop += y - AXIS;
    else if (y + tall > height) scroll.scrollTop += y + tall - height;
    const track = this.tracks[this.at];
    this.app.tell("at", [track.name, ...(track.counter ? [] : trackLines(this.app, track, this.whole ?? 0))].join(" · "));
    this.canvas.soon();
  }

  /** Chooses the next wait of a thread that is drawn. @param {Track} track @param {number} step */
  nextWait(track, step) {
    const { waits } = this.picture(track), now = waits.findIndex((bar) => bar.sample === this.wait);
    const next = waits[now < 0 ? (step > 0 ? 0 : waits.length - 1) : now + step];
    if (!next) return this.app.tell("at", things(waits.length, "wait") + " drawn of this track, and none there");
    this.showWait(next.sample);
    this.app.tell("at", waitLines(this.app, next).join(" · "));
  }
}
