// How a track is drawn: its name on the left, what it did on the right.

import { isWhole } from "./state.js";
import { amount, cut, element, percent, things } from "./text.js";
import { firstFrom, isChosen } from "./choose.js";
import { largest, rateText } from "./activity.js";
import { colorOfActivity, colorOfWait } from "./colors.js";
import { counterName, counterText, extremes } from "./counters.js";
import { fillArea, reachIn } from "./overview.js";
import { functionsOf } from "./waits.js";

/** @import {App} from "./main.js" */
/** @import {Kind} from "./activity.js" */
/** @import {Scale} from "./axis.js" */
/** @import {Chosen} from "./choose.js" */
/** @import {Picture, TimeView} from "./time.js" */
/** @import {Track} from "./tracks.js" */

/** The height of waits, px. */
export const BAR = 9;

/**
 * @param {TimeView} view @param {Track} track @param {Picture} picture @param {number} y @param {number} height @param {Scale} scale
 * @param {boolean} isAt the keyboard is here
 */
export function paintTrack(view, track, picture, y, height, scale, isAt) {
  const { app, canvas } = view, { context } = canvas, { theme } = app, { gutter } = view;
  const isCounter = track.kind === "counter" || track.kind === "group";
  context.globalAlpha = isCounter || track.kind === "note" || track.threads.some((it) => isChosen(app.side().threads[it], app.state)) ? 1 : 0.3;
  if (track.depth === 0) {
    context.fillStyle = theme.line;
    context.fillRect(0, y, canvas.width, 1);
  }
  const bottom = y + height - 2, { below } = picture;
  picture.areas.forEach(({ kind, sums }, i) => {
    const alpha = context.globalAlpha;
    if (i) context.globalAlpha = alpha * 0.7;
    fillArea(context, sums, gutter, bottom - below, height - below - 4, mostOf(app, kind, sums, scale.pixel), colorOfActivity(kind.event, theme.dark));
    context.globalAlpha = alpha;
  });
  for (const bar of picture.waits) {
    context.fillStyle = colorOfWait(bar.kind, theme.dark);
    context.fillRect(bar.x, bottom - BAR + 1, Math.max(bar.width - (bar.width > 3 ? 0.5 : 0), 1), BAR - 1);
    if (bar.sample === view.wait) {
      context.strokeStyle = theme.text;
      context.strokeRect(bar.x - 1, bottom - BAR, bar.width + 2, BAR + 1);
    }
  }
  if (picture.values && track.counter) paintValues(view, track, picture.values, y, height);
  paintName(view, track, y, height - below);
  context.globalAlpha = 1;
  if (!isAt) return;
  context.strokeStyle = theme.accent;
  context.lineWidth = 2;
  context.strokeRect(1, y + 1, canvas.width - 2, height - 2);
  context.lineWidth = 1;
}

/** What fills a track: all the time of a CPU, or what is most of what comes as it likes. @param {App} app @param {Kind} kind @param {Float64Array} sums @param {number} length of a column @returns {number} */
function mostOf(app, { event, unit }, sums, length) {
  const most = largest(sums), side = app.side();
  return unit === "ns" && side.events[event]?.is_of_cpu ? Math.max(most, length * side.unit_ns) : most;
}

/** @param {TimeView} view @param {Track} track @param {Float64Array} values @param {number} y @param {number} height */
function paintValues({ app, canvas, gutter }, { counter }, values, y, height) {
  const { context } = canvas, { theme } = app, ends = extremes(values);
  if (!counter) return;
  const write = (/** @type {string} */ text, /** @type {number} */ at) => {
    context.globalAlpha = 0.75;
    context.fillStyle = theme.back;
    context.fillRect(gutter + 2, at - 7, context.measureText(text).width + 4, 14);
    context.globalAlpha = 1;
    context.fillStyle = theme.text;
    context.fillText(text, gutter + 4, at);
  };
  if (!ends) return write("unknown", y + height / 2);
  // What grows begins at 0; a level fills its track from the least to the most.
  const least = counter.is_sum || ends[0] === ends[1] ? 0 : ends[0], span = ends[1] - least || 1, high = height - 6, bottom = y + height - 2;
  context.fillStyle = colorOfActivity(3, theme.dark);
  values.forEach((value, i) => {
    if (!Number.isNaN(value)) context.fillRect(gutter + i, bottom - Math.max(1, (value - least) / span * high), 1, Math.max(1, (value - least) / span * high));
  });
  write(counterText(counter, ends[1]), y + 9);
  write(counterText(counter, least), y + height - 9);
}

/** @param {TimeView} view @param {Track} track @param {number} y @param {number} height */
function paintName(view, track, y, height) {
  const { app, canvas, gutter } = view, { context } = canvas, { theme } = app, x = 8 + 14 * track.depth;
  const share = track.kind === "process" || track.kind === "thread" ? percent(track.weight / (view.whole || 1)) : "";
  const room = track.kind === "note" ? canvas.width - x : gutter - x - 14 - (share.length + 1) * canvas.character;
  const name = track.kind === "group" && track.counter ? `${track.name}: ${counterName(track.counter)}` : track.name;
  context.fillStyle = track.kind === "thread" || track.kind === "process" || track.kind === "group" ? theme.text : theme.faint;
  context.direction = "ltr";
  const middle = y + height / 2;
  if (track.isOpen !== undefined) context.fillText(track.isOpen ? "▾" : "▸", x, middle);
  context.fillText(cut(name, Math.floor(room / canvas.character)), x + 14, middle, room);
  context.fillStyle = theme.faint;
  if (share) context.fillText(share, gutter - 6 - context.measureText(share).width, middle);
}

/**
 * Says what a track is, and what it does at a place of it.
 * @param {App} app @param {Track} track @param {number} whole @param {{areas: Picture["areas"], column: number, length: number, time: number}} [place] @returns {string[]}
 */
export function trackLines(app, track, whole, place) {
  const side = app.side();
  if (track.kind !== "process" && track.kind !== "thread") return track.isOpen === undefined ? [] : ["click: fold or unfold the counters"];
  const what = track.kind === "process" ? [things(track.threads.length, "thread")] : [`thread ${track.key}`];
  if (!place) return [...what, `${percent(track.weight / (whole || 1))} of the chosen samples`, `click: only this ${track.kind}; Ctrl + click: this ${track.kind}, too`];
  const rates = place.areas.map(({ kind, sums }) => rateText(side, kind, sums[place.column] ?? 0, place.length));
  return [...rates, ...(track.threads.length === 1 ? stackAt(app, track.threads[0], place) : [])];
}

/** The innermost functions of the sample that stands for a moment. @param {App} app @param {number} thread @param {{areas: Picture["areas"], time: number, length: number}} place @returns {string[]} */
function stackAt(app, thread, { areas, time, length }) {
  const side = app.side(), reach = reachIn(app);
  for (let i = firstFrom(side, thread, time - length); i < side.thread_begin[thread + 1] && side.sample_time[i] - reach.of(i) <= time + length; i++) {
    if (areas.some(({ kind }) => kind.rows[side.sample_row[i]])) return [`in ${functionsOf(app.page, side, i, 3).names.join(" ← ")}`];
  }
  return [];
}

/** Says what the colors mean. @param {App} app @param {Kind[]} kinds @param {Chosen?} waits @returns {Node[]} */
export function legendOf(app, kinds, waits) {
  const side = app.side(), { dark } = app.theme;
  const entry = (/** @type {string} */ text, /** @type {string} */ color) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = color;
    return element("span", {}, swatch, ` ${text}`);
  };
  const others = colorOfWait("", dark), sums = new Map();
  waits?.weight.forEach((weight, row) => {
    const kind = side.waits[side.row_wait[row] - 1]?.kind ?? "unknown", name = colorOfWait(kind, dark) === others ? "other waits" : kind;
    if (weight) sums.set(name, (sums.get(name) ?? 0) + weight);
  });
  const ordered = [...sums].sort(([, a], [, b]) => b - a);
  const unit = (/** @type {Kind} */ kind) => kind.unit === "ns" && side.events[kind.event]?.is_of_cpu ? "full height: a CPU, or the most" : "each up to its own most";
  return [
    ...kinds.map((kind) => entry(`${kind.name} (${unit(kind)})`, colorOfActivity(kind.event, dark))),
    ...(ordered.length ? [element("span", {}, isWhole(app.state) ? "waits:" : "waits, also those that are not chosen:")] : []),
    ...ordered.map(([name, sum]) => entry(`${name} ${amount(sum, "ns")}`, name === "other waits" ? others : colorOfWait(name, dark))),
  ];
}
