// Time from left to right: where a moment lies on a picture, and the ticks of the axis.

/** @import {Side} from "./data.js" */
/** @import {Theme} from "./colors.js" */

/** The height of an axis, px. */
export const AXIS = 18;

/** A stretch of time on a picture. Times are those of the recording. */
export class Scale {
  /** @param {number} from @param {number} to @param {number} left px @param {number} width px */
  constructor(from, to, left, width) {
    this.from = from;
    this.to = Math.max(to, from + 1);
    this.left = left;
    this.width = Math.max(width, 1);
  }

  /** Returns how long a pixel is. */
  get pixel() {
    return (this.to - this.from) / this.width;
  }

  /** @param {number} time @returns {number} px */
  x(time) {
    return this.left + (time - this.from) / this.pixel;
  }

  /** @param {number} x px @returns {number} */
  time(x) {
    return this.from + (x - this.left) * this.pixel;
  }
}

/** Returns how many units of time a second has. @param {Side} side @returns {number} */
export function perSecond(side) {
  return 1e9 / side.unit_ns;
}

/** Returns the end of a recording; waits may end behind the last moment at which samples were taken. @param {Side} side @returns {number} */
export function endOf(side) {
  let end = Math.max(side.length, 1);
  for (let thread = 0; thread < side.threads.length; thread++) {
    const [first, behind] = [side.thread_begin[thread], side.thread_begin[thread + 1]];
    if (behind > first) end = Math.max(end, side.sample_time[behind - 1] + 1);
  }
  return end;
}

/** Returns the seconds after the start of the session, as `--from` and `--to` count them. @param {Side} side @param {number} time @returns {number} */
export function secondsAt(side, time) {
  return side.begin_s + time / perSecond(side);
}

/**
 * Says a moment, as exactly as a picture shows it.
 * @param {Side} side @param {number} time @param {number} [pixel] how long a pixel is @returns {string}
 */
export function moment(side, time, pixel = 1) {
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(pixel / perSecond(side)))));
  return `${secondsAt(side, time).toFixed(digits)} s`;
}

/**
 * Finds round numbers for an axis.
 * @param {number} from seconds @param {number} to seconds @param {number} most how many fit @returns {{at: number, text: string}[]}
 */
export function ticksOf(from, to, most) {
  const least = (to - from) / Math.max(most, 1);
  if (!(least > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= least * 0.999999) ?? 10 * power;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let n = Math.ceil(from / step - 1e-6) + 0; n * step <= to + step * 1e-6; n++) ticks.push({ at: n * step, text: `${(n * step).toFixed(digits)} s` });
  return ticks;
}

/**
 * Draws ticks, and lines down from them.
 * @param {CanvasRenderingContext2D} context @param {Side} side @param {Scale} scale @param {number} y @param {number} below how far down the lines go, px @param {Theme} theme
 */
export function drawAxis(context, side, scale, y, below, theme) {
  const ticks = ticksOf(secondsAt(side, scale.from), secondsAt(side, scale.to), scale.width / 90);
  context.direction = "ltr";
  for (const { at, text } of ticks) {
    const x = Math.round(scale.x((at - side.begin_s) * perSecond(side)));
    context.fillStyle = theme.line;
    context.fillRect(x, y, 1, AXIS + below);
    const { width } = context.measureText(text);
    context.fillStyle = theme.faint;
    if (x + 4 + width <= scale.left + scale.width) context.fillText(text, x + 4, y + AXIS / 2);
  }
}

/** Returns whether nobody sampled at a moment. @param {Side} side @param {number} time @returns {boolean} */
export function isUnsampled({ unsampled }, time) {
  return unsampled.some(([from, to]) => time >= from && time < to);
}

/** What stands where nobody sampled. */
export const UNSAMPLED = "nobody sampled: the recorder paused, or did not run";

/**
 * Hatches the times at which nobody sampled.
 * @param {CanvasRenderingContext2D} context @param {Side} side @param {Scale} scale @param {number} y @param {number} high px @param {Theme} theme
 */
export function hatchUnsampled(context, side, scale, y, high, theme) {
  const right = scale.left + scale.width;
  context.save();
  context.beginPath();
  for (const [from, to] of side.unsampled) {
    const x = Math.max(scale.left, scale.x(from)), end = Math.min(right, scale.x(to));
    if (end > x) context.rect(x, y, end - x, high);
  }
  context.clip();
  context.strokeStyle = theme.line;
  context.lineWidth = 1;
  context.beginPath();
  if (side.unsampled.length) {
    for (let x = scale.left - high; x < right; x += 6) {
      context.moveTo(x, y + high);
      context.lineTo(x + high, y);
    }
  }
  context.stroke();
  context.restore();
}
