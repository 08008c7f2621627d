// What samples weigh in the tree of all stacks.

import { short } from "./text.js";
import { NOTHING } from "./paths.js";

/** @import {Page} from "./data.js" */
/** @import {Chosen} from "./choose.js" */
/** @import {Forest} from "./forest.js" */
/** @import {State} from "./state.js" */

/**
 * A tree of frames, whichever way it grows. Node 0 is the root of all; a parent comes before its children.
 * @typedef {object} Calls
 * @property {ArrayLike<number>} label a function; what stacks begin with: the number of functions, and a position in `roots` more
 * @property {ArrayLike<number>} parent
 * @property {ArrayLike<number>} total what passed through here
 * @property {ArrayLike<number>} own what ended here
 * @property {string} ended what it means to end here: `self`, or `begins` where the children are callers and a stack begins here
 * @property {string[]} roots what stacks begin with
 * @property {boolean} images a label stands for all functions of its image
 * @property {(node: number) => ArrayLike<number>} children in the order of drawing
 * @property {Forest} [forest] what has the nodes, whatever the filters
 */

/**
 * What the chosen samples weigh in a forest. Nodes without weight are not among the children of any.
 * @implements {Calls}
 */
export class Tree {
  /** @param {Forest} forest @param {Chosen} chosen @param {State} state @param {Chosen} [before] of another recording, whose nodes are children, too */
  constructor(forest, chosen, state, before) {
    const { page, roots, images, length, label, parent } = forest;
    this.forest = forest;
    this.page = page;
    this.roots = roots;
    this.images = images;
    this.length = length;
    this.label = label;
    this.parent = parent;
    this.ended = "self";
    this.byName = state.order === "name";
    /** The node in which each row ends. */
    this.leaves = forest.leaves[chosen.side.index];
    this.own = ownOf(length, chosen, this.leaves);
    this.total = withCallees(this.own, parent);
    this.before = before ? withCallees(ownOf(length, before, forest.leaves[before.side.index]), parent) : null;
    /** Samples of which nothing but hidden frames was left: they do not count. */
    this.emptied = emptiedOf(chosen, this.leaves);
    /** Children that were asked for. @type {Map<number, Uint32Array>} */
    this.ordered = new Map();
  }

  /** @param {number} node @returns {Uint32Array} */
  children(node) {
    const known = this.ordered.get(node);
    if (known) return known;
    const { total, before, label, forest: { begin, child } } = this, rank = this.page.byName, functions = rank.length;
    const children = child.subarray(begin[node], begin[node + 1]).filter((it) => total[it] > 0 || before && before[it] > 0);
    // Roots of stacks keep their order by name, which is that of their labels.
    const name = (/** @type {number} */ it) => label[it] < functions ? rank[label[it]] : label[it];
    children.sort(this.byName ? (a, b) => name(a) - name(b) : (a, b) => total[b] - total[a] || name(a) - name(b));
    this.ordered.set(node, children);
    return children;
  }
}

/** Adds to each node what its callees have. @param {Float64Array} own @param {Uint32Array} parent @returns {Float64Array} */
function withCallees(own, parent) {
  const total = own.slice();
  for (let node = total.length - 1; node > 0; node--) total[parent[node]] += total[node];
  return total;
}

/** Adds up what passed through each node, of some rows. @param {Tree} tree @param {Chosen} chosen of the tree @param {(row: number) => boolean} is @returns {Float64Array} */
export function totalsOf(tree, { weight }, is) {
  const own = new Float64Array(tree.length), { leaves } = tree;
  for (let row = 0; row < weight.length; row++) if (weight[row] && leaves[row] !== NOTHING && is(row)) own[leaves[row]] += weight[row];
  return withCallees(own, tree.parent);
}

/** Adds up what ended in each node. @param {number} length how many nodes there are @param {Chosen} chosen @param {Uint32Array} leaves @returns {Float64Array} */
function ownOf(length, { weight }, leaves) {
  const own = new Float64Array(length);
  for (let row = 0; row < weight.length; row++) if (weight[row] && leaves[row] !== NOTHING) own[leaves[row]] += weight[row];
  return own;
}

/** Counts chosen samples that end in no node. @param {Chosen} chosen @param {Uint32Array} leaves @returns {number} */
function emptiedOf({ weight, number }, leaves) {
  let emptied = 0;
  for (let row = 0; row < weight.length; row++) if (leaves[row] === NOTHING && weight[row]) emptied += number[row];
  return emptied;
}

/** @param {import("./data.js").Func} func @param {boolean} images it stands for its image @returns {string} */
export function nameOfLabel(func, images) {
  return images ? short(func.image) || "no image" : func.name;
}

/** Names a node. @param {Page} page @param {Pick<Calls, "label" | "roots" | "images">} calls @param {number} node @returns {string} */
export function nameOf(page, calls, node) {
  const label = calls.label[node];
  if (label === NOTHING) return "all";
  if (label >= page.functions.length) return calls.roots[label - page.functions.length];
  return nameOfLabel(page.functions[label], calls.images);
}
