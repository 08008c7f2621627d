// Stacks merged into a tree, root first. Everything here is a loop: stacks may be 10,000 frames deep.

import { short } from "./text.js";
import { which } from "./choose.js";

/** @import {Page, Side} from "./data.js" */
/** @import {Chosen} from "./choose.js" */
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

/** The label of the root of everything. */
export const NOTHING = 0xffffffff;

/** Rows are many if there is one for so many paths. */
const MANY = 32;

/**
 * The stacks of all rows as one tree, root by root. Filters do not change it: they change what its nodes weigh.
 */
export class Forest {
  /** @param {Page} page @param {State} state @param {Paths} [paths] for this state */
  constructor(page, state, paths = new Paths(page, state)) {
    this.page = page;
    this.images = state.merge === "image";
    this.length = 1;
    this.label = new Uint32Array(1024).fill(NOTHING, 0, 1);
    this.parent = new Uint32Array(1024);
    const { roots, ofThread } = rootsOf(page.sides, state.root), used = new Used(paths), ordered = page.sides.map((side, i) => byRoot(side, ofThread[i], Math.max(roots.length, 1)));
    this.roots = roots;
    /** For each recording, the node in which each row ends; `NOTHING` where all is hidden. */
    this.leaves = page.sides.map((side) => new Uint32Array(side.row_stack.length));
    for (let root = 0; root < ordered[0].begin.length - 1; root++) {
      const lists = ordered.map(({ begin, rows }) => rows.subarray(begin[root], begin[root + 1]));
      if (lists.every((rows) => rows.length === 0)) continue;
      this.add(root, lists, used);
    }
    this.label = this.label.slice(0, this.length);
    this.parent = this.parent.slice(0, this.length);
    const { begin, child } = this.children();
    /** Where the children of each node begin, and then the number of children. */
    this.begin = begin;
    this.child = child;
  }

  /** Makes the nodes of one root. @param {number} root @param {Uint32Array[]} lists its rows, by recording @param {Used} used */
  add(root, lists, used) {
    const { page: { sides, functions }, roots, leaves } = this, { paths } = used;
    const above = roots.length ? this.node(0, functions.length + root) : 0;
    /** @type {Uint32Array[]} */
    const ends = sides.map(({ row_stack }, i) => {
      const node = paths.node[i], rows = lists[i], ends = new Uint32Array(rows.length);
      for (let at = 0; at < rows.length; at++) ends[at] = node[row_stack[rows[at]]];
      return ends;
    });
    const node = used.into(this, above, ends);
    sides.forEach(({ row_stack }, i) => {
      const rows = lists[i], paths = ends[i], leaf = leaves[i];
      for (let at = 0; at < rows.length; at++) leaf[rows[at]] = paths[at] ? node[paths[at]] : row_stack[rows[at]] ? NOTHING : above;
    });
  }

  /** Makes room for more nodes. @param {number} count @returns {number} the first of them */
  room(count) {
    const first = this.length;
    this.length += count;
    if (this.length > this.label.length) {
      const length = Math.max(this.length, this.label.length * 2);
      this.label = longer(this.label, length);
      this.parent = longer(this.parent, length);
    }
    return first;
  }

  /** @param {number} parent @param {number} label @returns {number} */
  node(parent, label) {
    const made = this.room(1);
    this.label[made] = label;
    this.parent[made] = parent;
    return made;
  }

  /** Lists the children of all nodes. @returns {{begin: Uint32Array, child: Uint32Array}} */
  children() {
    const { length, parent } = this, begin = new Uint32Array(length + 2), child = new Uint32Array(length - 1);
    for (let node = 1; node < length; node++) begin[parent[node] + 2]++;
    for (let node = 0; node < length; node++) begin[node + 2] += begin[node + 1];
    // Where the children of a node begin moves to where they end: there those of the next one begin.
    for (let node = 1; node < length; node++) child[begin[parent[node] + 1]++] = node;
    return { begin, child };
  }
}

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

/** @param {Uint32Array} from @param {number} length */
function longer(from, length) {
  const into = new Uint32Array(length);
  into.set(from);
  return into;
}

/** Adds to each node what its callees have. @param {Float64Array} own @param {Uint32Array} parent @returns {Float64Array} */
function withCallees(own, parent) {
  const total = own.slice();
  for (let node = total.length - 1; node > 0; node--) total[parent[node]] += total[node];
  return total;
}

/**
 * All stacks of a page, those with the same functions as one: a tree of which each merged tree is a part. Filters do not change it; only
 * what is hidden, collapsed or merged does.
 */
export class Paths {
  /** @param {Page} page @param {State} state @param {Paths} [all] for this state, but with all frames: that takes less time where few are hidden */
  constructor(page, state, all) {
    /** @type {string[]} */
    this.roots = [];
    this.images = state.merge === "image";
    this.length = 1;
    const most = page.sides.reduce((sum, side) => sum + side.up.length, 1);
    this.label = new Uint32Array(most).fill(NOTHING, 0, 1);
    this.parent = new Uint32Array(most);
    this.slots = new Uint32Array(2 ** Math.ceil(Math.log2(most * 1.5)));
    const how = rules(page, state), known = all && how.hidden && !how.image && !how.collapse ? this.without(all, how.hidden) : null;
    /** The node of each stack, by recording. @type {Uint32Array[]} */
    this.node = page.sides.map(({ up, stack_function }, i) => {
      const node = new Uint32Array(up.length);
      if (known && all) for (let stack = 1; stack < node.length; stack++) node[stack] = known[all.node[i][stack]];
      else for (let stack = 1; stack < node.length; stack++) node[stack] = this.step(node[up[stack]], stack_function[stack], how);
      return node;
    });
    this.label = this.label.slice(0, this.length);
    this.parent = this.parent.slice(0, this.length);
    this.slots = new Uint32Array(0);
  }

  /**
   * Takes frames out of paths. What a hidden frame called stands beside what its caller called, so below that caller paths may become
   * one; all others stay.
   * @param {Paths} all @param {Uint8Array} hidden 1 for each function that is @returns {Uint32Array} the node of each path
   */
  without({ label, parent, length }, hidden) {
    const node = new Uint32Array(length), isMixed = new Uint8Array(length), { label: labels, parent: parents } = this;
    for (let path = 1; path < length; path++) if (hidden[label[path]]) isMixed[parent[path]] = 1;
    for (let path = 1; path < length; path++) {
      const caller = parent[path], above = node[caller], is = label[path];
      if (isMixed[caller]) {
        isMixed[path] = 1;
        node[path] = hidden[is] ? above : this.child(above, is);
      } else {
        const made = node[path] = this.length++;
        labels[made] = is;
        parents[made] = above;
      }
    }
    return node;
  }

  /** Finds the node of a frame and its callers. @param {number} node of its caller @param {number} label @param {Rules} how @returns {number} */
  step(node, label, how) {
    if (how.hidden?.[label]) return node;
    if (how.image) {
      label = how.image[label];
      if (this.label[node] === label) return node;
    }
    if (how.collapse) {
      // The same function further out is the same frame: what lies between is a cycle.
      for (let at = node; at !== 0; at = this.parent[at]) if (this.label[at] === label) return at;
    }
    return this.child(node, label);
  }

  /** Finds the child of a node, or makes it. @param {number} parent @param {number} label @returns {number} */
  child(parent, label) {
    const { slots } = this, mask = slots.length - 1;
    let slot = mix(parent, label) & mask;
    for (let node = slots[slot]; node !== 0; node = slots[slot]) {
      if (this.parent[node] === parent && this.label[node] === label) return node;
      slot = (slot + 1) & mask;
    }
    const made = slots[slot] = this.length++;
    this.label[made] = label;
    this.parent[made] = parent;
    return made;
  }
}

/** @param {number} parent @param {number} label @returns {number} */
function mix(parent, label) {
  let hash = Math.imul(parent, 0x9e3779b1) ^ Math.imul(label + 1, 0x85ebca6b);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  return (hash ^ hash >>> 13) >>> 0;
}

/** What becomes of functions: 1 for those that are hidden, null if none is, and what stands for an image. @typedef {{hidden: Uint8Array?, collapse: boolean, image: Uint32Array?}} Rules */

/** @param {Page} page @param {State} state @returns {Rules} */
function rules(page, { hide, collapse, merge }) {
  const hidden = hide.length ? which(page, (it) => hide.includes(it.name)) : null;
  return { hidden, collapse, image: merge === "image" ? firstOfImage(page.imageOf) : null };
}

/** Lists for each function one that stands for its image. @param {Uint32Array} imageOf @returns {Uint32Array} */
function firstOfImage(imageOf) {
  const first = new Map();
  imageOf.forEach((image, i) => { if (!first.has(image)) first.set(image, i); });
  return imageOf.map((image) => first.get(image) ?? 0);
}

/**
 * Merges the chosen samples of a recording.
 * @param {Page} page @param {Chosen} chosen @param {State} state @param {Forest} [forest] for this state @returns {Tree}
 */
export function merge(page, chosen, state, forest = new Forest(page, state)) {
  return new Tree(forest, chosen, state);
}

/** Collects the paths that rows of one root need, with their callers, and makes nodes of them. */
class Used {
  /** @param {Paths} paths */
  constructor(paths) {
    this.paths = paths;
    /** The root for which a path was collected last. */
    this.by = new Uint32Array(paths.length);
    this.root = 0;
    this.list = new Uint32Array(paths.length);
    /** The node of each path that was collected. */
    this.node = new Uint32Array(paths.length);
  }

  /** @param {Forest} forest @param {number} above the node of the root @param {Uint32Array[]} ends paths in which rows end @returns {Uint32Array} the node of each path */
  into(forest, above, ends) {
    const { node, paths: { label, parent } } = this, list = this.collect(ends);
    let made = forest.room(list.length);
    const { label: labels, parent: parents } = forest;
    for (let i = 0; i < list.length; i++, made++) {
      const path = list[i], caller = parent[path];
      node[path] = made;
      labels[made] = label[path];
      parents[made] = caller === 0 ? above : node[caller];
    }
    return node;
  }

  /** Lists paths and their callers in order: callers come before their callees. @param {Uint32Array[]} ends @returns {Uint32Array} */
  collect(ends) {
    const { by, list, paths: { parent } } = this, root = ++this.root, many = by.length / MANY;
    let length = 0;
    if (ends.reduce((sum, it) => sum + it.length, 0) < many) {
      for (const paths of ends) {
        for (let i = 0; i < paths.length; i++) {
          for (let path = paths[i]; path !== 0 && by[path] !== root; path = parent[path]) {
            by[path] = root;
            list[length++] = path;
          }
        }
      }
      return list.subarray(0, length).sort();
    }
    // To look at all paths is faster than to walk from each.
    for (const paths of ends) for (let i = 0; i < paths.length; i++) by[paths[i]] = root;
    for (let path = by.length - 1; path > 0; path--) if (by[path] === root) by[parent[path]] = root;
    for (let path = 1; path < by.length; path++) if (by[path] === root) list[length++] = path;
    return list.subarray(0, length);
  }
}

/** Orders rows by what their stacks begin with. @param {Side} side @param {Uint32Array} rootOfThread @param {number} roots */
function byRoot({ row_thread }, rootOfThread, roots) {
  const begin = new Uint32Array(roots + 1), { length } = row_thread;
  for (let row = 0; row < length; row++) begin[rootOfThread[row_thread[row]] + 1]++;
  for (let root = 0; root < roots; root++) begin[root + 1] += begin[root];
  const rows = new Uint32Array(length), next = begin.slice();
  for (let row = 0; row < length; row++) rows[next[rootOfThread[row_thread[row]]]++] = row;
  return { begin, rows };
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

/**
 * Lists what stacks begin with, in the order of names, and which of it each thread has.
 * @param {Side[]} sides @param {string} root @returns {{roots: string[], ofThread: Uint32Array[]}}
 */
export function rootsOf(sides, root) {
  const name = (/** @type {import("./data.js").Thread} */ it) => root === "thread" ? it.comm : it.process;
  if (root === "none") return { roots: [], ofThread: sides.map((side) => new Uint32Array(side.threads.length)) };
  const roots = [...new Set(sides.flatMap((side) => side.threads.map(name)))].sort();
  const position = new Map(roots.map((it, i) => [it, i]));
  return { roots, ofThread: sides.map((side) => Uint32Array.from(side.threads, (it) => position.get(name(it)) ?? 0)) };
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
