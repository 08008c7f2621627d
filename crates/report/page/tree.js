// Stacks merged into a tree, root first. Everything here is a loop: stacks may be 10,000 frames deep.

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
 * @property {ArrayLike<number>} stack a stack that led here
 * @property {string[]} roots what stacks begin with
 * @property {(node: number) => ArrayLike<number>} children in the order of drawing
 */

/** The label of the root of everything. */
export const NOTHING = 0xffffffff;

/** @implements {Calls} */
export class Tree {
  /** @param {Page} page @param {string[]} roots */
  constructor(page, roots) {
    this.page = page;
    this.roots = roots;
    this.length = 1;
    this.label = new Uint32Array(1024).fill(NOTHING, 0, 1);
    this.parent = new Uint32Array(1024);
    this.stack = new Uint32Array(1024);
    this.own = new Float64Array(1024);
    this.total = new Float64Array(0);
    this.begin = new Uint32Array(0);
    this.child = new Uint32Array(0);
    this.sorted = new Uint8Array(0);
    this.slots = new Uint32Array(4096);
    this.byName = false;
    /** Samples of which nothing but hidden frames was left: they do not count. */
    this.emptied = 0;
    this.ended = "self";
  }

  /** Finds the child of a node, or makes it. @param {number} parent @param {number} label @param {number} stack @returns {number} */
  node(parent, label, stack) {
    const mask = this.slots.length - 1;
    let slot = mix(parent, label) & mask;
    for (let node = this.slots[slot]; node !== 0; node = this.slots[slot]) {
      if (this.parent[node] === parent && this.label[node] === label) return node;
      slot = (slot + 1) & mask;
    }
    const made = this.length++;
    if (made === this.label.length) this.grow();
    this.label[made] = label;
    this.parent[made] = parent;
    this.stack[made] = stack;
    this.slots[slot] = made;
    if (this.length * 2 > this.slots.length) this.rehash();
    return made;
  }

  grow() {
    const length = this.label.length * 2;
    this.label = wider(this.label, new Uint32Array(length));
    this.parent = wider(this.parent, new Uint32Array(length));
    this.stack = wider(this.stack, new Uint32Array(length));
    this.own = wider(this.own, new Float64Array(length));
  }

  rehash() {
    this.slots = new Uint32Array(this.slots.length * 2);
    const mask = this.slots.length - 1;
    for (let node = 1; node < this.length; node++) {
      let slot = mix(this.parent[node], this.label[node]) & mask;
      while (this.slots[slot] !== 0) slot = (slot + 1) & mask;
      this.slots[slot] = node;
    }
  }

  /** Adds up, and lists children, once all nodes are there. @param {boolean} byName order siblings by name, else by weight */
  finish(byName) {
    this.byName = byName;
    this.slots = new Uint32Array(0);
    const { length, parent } = this;
    this.total = this.own.slice(0, length);
    this.begin = new Uint32Array(length + 1);
    for (let node = length - 1; node > 0; node--) {
      this.total[parent[node]] += this.total[node];
      this.begin[parent[node] + 1]++;
    }
    for (let node = 0; node < length; node++) this.begin[node + 1] += this.begin[node];
    const next = this.begin.slice();
    this.child = new Uint32Array(Math.max(length - 1, 0));
    for (let node = 1; node < length; node++) this.child[next[parent[node]]++] = node;
    this.sorted = new Uint8Array(length);
    return this;
  }

  /** @param {number} node @returns {Uint32Array} */
  children(node) {
    const children = this.child.subarray(this.begin[node], this.begin[node + 1]);
    if (!this.sorted[node] && children.length > 1) {
      const { total, label } = this, rank = this.page.byName, functions = rank.length;
      // Roots of stacks keep their order by name, which is that of their labels.
      const name = (/** @type {number} */ it) => label[it] < functions ? rank[label[it]] : label[it];
      children.sort(this.byName ? (a, b) => name(a) - name(b) : (a, b) => total[b] - total[a] || name(a) - name(b));
    }
    this.sorted[node] = 1;
    return children;
  }
}

/** @template {Uint32Array | Float64Array} A @param {A} from @param {A} into @returns {A} */
function wider(from, into) {
  into.set(from);
  return into;
}

/** @param {number} parent @param {number} label @returns {number} */
function mix(parent, label) {
  let hash = Math.imul(parent, 0x9e3779b1) ^ Math.imul(label + 1, 0x85ebca6b);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  return (hash ^ hash >>> 13) >>> 0;
}

/**
 * Merges the chosen samples of a recording.
 * @param {Page} page @param {Chosen} chosen @param {State} state @returns {Tree}
 */
export function merge(page, chosen, state) {
  const { roots, ofThread } = rootsOf([chosen.side], state.root);
  const tree = new Tree(page, roots);
  add(tree, chosen, ofThread[0], chosen.weight, rules(page, state));
  return tree.finish(state.order === "name");
}

/**
 * Merges the chosen samples of two recordings into the same nodes; returns the tree, whose weights are those of the second, and the
 * totals of the first.
 * @param {Page} page @param {[Chosen, Chosen]} chosen @param {State} state @returns {{tree: Tree, before: Float64Array}}
 */
export function mergeBoth(page, [first, second], state) {
  const { roots, ofThread } = rootsOf([first.side, second.side], state.root);
  const tree = new Tree(page, roots), how = rules(page, state);
  add(tree, first, ofThread[0], first.weight, how);
  const own = tree.own.slice(0, tree.length);
  tree.own.fill(0);
  add(tree, second, ofThread[1], second.weight, how);
  const before = new Float64Array(tree.length);
  before.set(own);
  for (let node = tree.length - 1; node > 0; node--) before[tree.parent[node]] += before[node];
  return { tree: tree.finish(state.order === "name"), before };
}

/**
 * Merges stacks as `merge` does, without what they begin with, and whatever they weigh.
 * @param {Page} page @param {Side} side @param {Iterable<number>} stacks @param {State} state
 * @returns {{tree: Tree, node: Uint32Array}} and the node of each of the stacks
 */
export function pathsOf(page, side, stacks, state) {
  const tree = new Tree(page, []), how = rules(page, state);
  const node = new Uint32Array(side.up.length), inRoot = new Uint32Array(side.up.length);
  for (const stack of stacks) nodeOf(tree, side, stack, 0, 1, node, inRoot, how);
  return { tree: tree.finish(state.order === "name"), node };
}

/** What becomes of the frames of a function. */
const KEEP = 0, HIDE = 1;

/** @typedef {{of: Uint8Array, collapse: boolean, image: Uint32Array?}} Rules */

/** @param {Page} page @param {State} state @returns {Rules} */
function rules(page, state) {
  const of = Uint8Array.from(page.functions, (it) => state.hide.includes(it.name) ? HIDE : KEEP);
  return { of, collapse: state.collapse, image: state.merge === "image" ? firstOfImage(page) : null };
}

/** Lists for each function one that stands for its image. @param {Page} page @returns {Uint32Array} */
function firstOfImage(page) {
  const first = new Map();
  page.imageOf.forEach((image, i) => { if (!first.has(image)) first.set(image, i); });
  return page.imageOf.map((image) => first.get(image) ?? 0);
}

/**
 * Adds rows, those with one root together, because a stack is walked once for each root.
 * @param {Tree} tree @param {Chosen} chosen @param {Uint32Array} rootOfThread @param {Float64Array} weight @param {Rules} how
 */
function add(tree, { side, rows, number }, rootOfThread, weight, how) {
  const known = new Uint32Array(side.up.length), inRoot = new Uint32Array(side.up.length);
  const functions = tree.page.functions.length;
  for (const [root, list] of byRoot(side, rows, weight, rootOfThread)) {
    const begin = tree.roots.length ? tree.node(0, functions + root, 0) : 0;
    for (const row of list) {
      const leaf = nodeOf(tree, side, side.row_stack[row], begin, root + 1, known, inRoot, how);
      if (leaf === begin && side.row_stack[row] !== 0) tree.emptied += number[row];
      else tree.own[leaf] += weight[row];
    }
  }
}

/**
 * @param {Side} side @param {Uint8Array} rows @param {Float64Array} weight @param {Uint32Array} rootOfThread
 * @returns {Map<number, number[]>}
 */
function byRoot(side, rows, weight, rootOfThread) {
  /** @type {Map<number, number[]>} */
  const lists = new Map();
  for (let row = 0; row < rows.length; row++) {
    if (!weight[row]) continue;
    const root = rootOfThread[side.row_thread[row]];
    const list = lists.get(root);
    if (list) list.push(row);
    else lists.set(root, [row]);
  }
  return lists;
}

/**
 * Finds the node of a stack. `known` has those that were found for the root that `inRoot` says.
 * @param {Tree} tree @param {Side} side @param {number} stack @param {number} begin @param {number} root
 * @param {Uint32Array} known @param {Uint32Array} inRoot @param {Rules} how @returns {number}
 */
function nodeOf(tree, side, stack, begin, root, known, inRoot, how) {
  /** @type {number[]} */
  const path = [];
  let at = stack;
  while (at !== 0 && inRoot[at] !== root) {
    path.push(at);
    at = side.up[at];
  }
  let node = at === 0 ? begin : known[at];
  for (let i = path.length - 1; i >= 0; i--) {
    node = step(tree, node, side.stack_function[path[i]], path[i], how);
    known[path[i]] = node;
    inRoot[path[i]] = root;
  }
  return node;
}

/** @param {Tree} tree @param {number} node @param {number} label @param {number} stack @param {Rules} how @returns {number} */
function step(tree, node, label, stack, how) {
  if (how.of[label] === HIDE) return node;
  if (how.image) {
    label = how.image[label];
    if (tree.label[node] === label) return node;
  }
  if (how.collapse) {
    // The same function further out is the same frame: what lies between is a cycle.
    for (let at = node; at !== 0; at = tree.parent[at]) if (tree.label[at] === label) return at;
  }
  return tree.node(node, label, stack);
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

/** Names a node. @param {Page} page @param {Calls} calls @param {number} node @returns {string} */
export function nameOf(page, calls, node) {
  const label = calls.label[node];
  if (label === NOTHING) return "all";
  return label < page.functions.length ? page.functions[label].name : calls.roots[label - page.functions.length];
}
