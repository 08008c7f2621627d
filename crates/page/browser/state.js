// What the user chose: the whole of it stands in the fragment of the address, so that a link shows the same, and "back" undoes.

/**
 * @typedef {object} State
 * @property {string} view
 * @property {number} side which recording is shown
 * @property {string} metric `weight` or `samples`
 * @property {string} order of siblings: `name` or `weight`
 * @property {string} up where the root is: `bottom` or `top`
 * @property {boolean} inverted leaf first
 * @property {string} root what stacks begin with: `none`, `process` or `thread`
 * @property {boolean} collapse recursion is drawn once
 * @property {string} color
 * @property {number} from seconds after time 0; -1: the begin
 * @property {number} to -1: the end
 * @property {string[]} process numbers, with the host before them if there are several
 * @property {string[]} thread numbers of processes and threads: `7/8`
 * @property {string[]} event names; none: the usual ones
 * @property {string[]} image paths
 * @property {string[]} focus names of functions: only samples with all of them
 * @property {string[]} without names of functions: no samples with any of them
 * @property {string[]} hide names of functions whose frames are taken out
 * @property {string} merge `physical`: inlined functions are part of the function that holds their code; `image`: neighbours of one image are one frame
 * @property {string} search
 * @property {string} zoom the frame that fills the width
 * @property {number} selected a function, for its callers and callees; -1: none
 * @property {string} line a source line of that function: its number, a blank, its file
 * @property {string[]} folds tracks that the user folded or unfolded
 * @property {number} lane the thread of the chart; -1: the busiest
 * @property {string} sort a column of the list of functions
 * @property {string} theme `light` or `dark`; empty: what the system prefers
 */

/** @type {State} */
export const START = {
  view: "flame", side: 0, metric: "weight", order: "name", up: "top", inverted: false, root: "process", collapse: false,
  color: "kind", from: -1, to: -1, process: [], thread: [], event: [], image: [], focus: [], without: [], hide: [],
  merge: "", search: "", zoom: "", selected: -1, line: "", folds: [], lane: -1, sort: "self", theme: "",
};

/** The fields that decide which samples count. */
export const FILTERS = /** @type {const} */ (["from", "to", "process", "thread", "event", "image", "focus", "without"]);

/** @param {State} state @returns {string} */
export function toFragment(state) {
  const words = new URLSearchParams();
  for (const [name, start] of Object.entries(START)) {
    const value = /** @type {any} */ (state)[name];
    if (Array.isArray(value)) value.forEach((one) => words.append(name, one));
    else if (value !== start) words.set(name, String(value));
  }
  return words.toString();
}

/** Reads a fragment, whoever wrote it: what it does not say, or says wrongly, is as at the start. @param {string} fragment @returns {State} */
export function fromFragment(fragment) {
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  /** @type {any} */
  const state = { ...START };
  for (const [name, start] of Object.entries(START)) {
    if (!words.has(name)) continue;
    const value = words.get(name) ?? "";
    if (Array.isArray(start)) state[name] = words.getAll(name);
    else if (typeof start === "boolean") state[name] = value === "true";
    else if (typeof start === "number") state[name] = isAllowed(name, Number(value)) ? Number(value) : start;
    else state[name] = value;
  }
  // A stretch that ends before it begins would leave nothing.
  if (state.to >= 0 && state.to <= state.from) [state.from, state.to] = [START.from, START.to];
  return state;
}

/** @param {string} name @param {number} value @returns {boolean} */
function isAllowed(name, value) {
  return value >= -1 && (name === "from" || name === "to" ? Number.isFinite(value) : Number.isInteger(value));
}

/** Returns true if no filter is active. @param {State} state @returns {boolean} */
export function isWhole(state) {
  return FILTERS.every((name) => String(state[name]) === String(START[name]));
}
