// Colors of frames, in light and dark. A shade depends only on the name, so that one function looks alike everywhere.

/** @import {Func} from "./data.js" */

/** @typedef {{dark: boolean, text: string, faint: string, back: string, line: string, mark: string, accent: string}} Theme */

/** @param {Element} root @returns {Theme} */
export function themeOf(root) {
  const style = getComputedStyle(root);
  const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return {
    dark: read("--dark") === "1", text: read("--text"), faint: read("--faint"), back: read("--back"),
    line: read("--line"), mark: read("--mark"), accent: read("--accent"),
  };
}

/** FNV-1a, as views/flame.rs has it. @param {string} text @returns {number} */
export function hash(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return hash;
}

/** @param {number} hue @param {number} strength 0 to 100 @param {number} shade -1 to 1 @param {boolean} dark @returns {string} */
function hsl(hue, strength, shade, dark) {
  return `hsl(${hue} ${strength}% ${(dark ? 33 : 72) + shade * 5}%)`;
}

/** Hues of languages, by their numbers in the recording: Python, Java, PHP, JavaScript. @type {Record<number, number>} */
const LANGUAGES = { 1: 215, 2: 100, 3: 300, 4: 70 };

/**
 * The color of a frame: its kind, or its image.
 * @param {Func | undefined} func undefined for what stacks begin with
 * @param {string} name @param {string} mode @param {boolean} inlined @param {boolean} dark @returns {string}
 */
export function colorOf(func, name, mode, inlined, dark) {
  const shade = (hash(name) % 1000) / 500 - 1;
  if (!func) return hsl(48, 55, shade, dark);
  if (func.side === 2) return hsl(265, 40, shade, dark);
  if (func.reason) return hsl(0, 0, shade, dark);
  if (mode === "image") {
    const image = hash(func.image);
    return hsl(image % 360, 45 + (image >>> 9) % 20, shade, dark);
  }
  if (func.side === 1) return hsl(32, 75, shade, dark);
  const language = LANGUAGES[func.language];
  if (language !== undefined) return hsl(language, 50, shade, dark);
  return inlined ? hsl(180, 45, shade, dark) : hsl(8, 65, shade, dark);
}

/**
 * The color of a change: red grew, blue shrank, grey is chance.
 * @param {number} change -1 to 1 @param {boolean} isChance @param {boolean} dark @returns {string}
 */
export function colorOfChange(change, isChance, dark) {
  if (isChance || change === 0) return hsl(0, 0, 0, dark);
  const strength = 25 + 70 * Math.min(1, Math.sqrt(Math.abs(change)));
  return hsl(change > 0 ? 4 : 215, strength, 0, dark);
}

/** The color of a frame by the share of its samples whose stacks are doubtful. @param {number} share 0 to 1 @param {boolean} dark @returns {string} */
export function colorOfDoubt(share, dark) {
  return share > 0 ? hsl(320, 5 + 85 * Math.sqrt(share), -2 * share, dark) : hsl(140, 25, 0, dark);
}

/** Hues of kinds of waits. @type {Record<string, number>} */
const WAITS = {
  sleep: 210, futex: 285, pipe: 165, socket: 130, poll: 190, disk: 20, "page fault": 350, "kernel lock": 315, child: 240, stopped: 60,
  "run-delay": 0, recorder: 80,
};

/** @param {string} kind @param {boolean} dark @returns {string} */
export function colorOfWait(kind, dark) {
  const hue = WAITS[kind];
  return hue === undefined ? hsl(0, 0, 0, dark) : hsl(hue, 50, 0, dark);
}

/** Hues of what is done over time, by the place of its event; then they begin anew. */
const ACTIVITIES = [212, 28, 140, 320, 60, 265];

/** The color of activity over time: of an event by its place, or of waits. @param {number} event -1: waits @param {boolean} dark @returns {string} */
export function colorOfActivity(event, dark) {
  return event < 0 ? `hsl(285 45% ${dark ? 62 : 58}%)` : `hsl(${ACTIVITIES[event % ACTIVITIES.length]} 55% ${dark ? 58 : 52}%)`;
}
