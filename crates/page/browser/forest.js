// The stacks of all rows as one tree, root by root. Filters do not change it: they change what its nodes weigh.

import { NOTHING, Nodes, Paths, hiddenOf } from "./paths.js";

/** @import {Page, Side} from "./data.js" */
/** @import {State} from "./state.js" */

/** Rows are many if there is one for so many paths. */
const MANY = 32;

export class Forest extends Nodes {
  /** @param {Page} page @param {State} state @param {Paths | Forest} [from] the paths for this state; or the forest of the state that hides no frame, which takes less time */
  constructor(page, state, from = new Paths(page, state)) {
    super(from.length);
    this.page = page;
    this.images = state.merge === "image";
    const { roots, ofThread } = rootsOf(page.sides, state.root);
    this.roots = roots;
    /** For each recording, the node in which each row ends; `NOTHING` where all is hidden. */
    this.leaves = page.sides.map((side) => new Uint32Array(side.row_stack.length));
    if (from instanceof Forest) this.hide(from, hiddenOf(page, state.hide));
    else this.plant(from, page.sides.map((side, i) => byRoot(side, ofThread[i], Math.max(roots.length, 1))));
    this.close();
    const { begin, child } = this.children();
    /** Where the children of each node begin, and then the number of children. */
    this.begin = begin;
    this.child = child;
  }

  /** @param {Forest} all @param {Uint8Array} hidden 1 for each function that is */
  hide(all, hidden) {
    const node = this.copy(all, hidden), { label } = this, functions = hidden.length;
    all.leaves.forEach((leaves, i) => {
      const own = this.leaves[i];
      for (let row = 0; row < leaves.length; row++) {
        const leaf = leaves[row], now = node[leaf];
        // Of a stack that had frames, the root alone is left.
        own[row] = label[now] >= functions && all.label[leaf] < functions ? NOTHING : now;
      }
    });
  }

  /** @param {Paths} paths @param {Rows[]} ordered the rows of each recording */
  plant(paths, ordered) {
    const used = new Used(paths);
    for (let root = 0; root < ordered[0].begin.length - 1; root++) {
      const lists = ordered.map(({ begin, rows }) => rows.subarray(begin[root], begin[root + 1]));
      if (lists.some((rows) => rows.length > 0)) this.add(root, lists, used);
    }
  }

  /** Makes the nodes of one root. @param {number} root @param {Uint32Array[]} lists its rows, by recording @param {Used} used */
  add(root, lists, used) {
    const { page: { sides, functions }, roots, leaves } = this, { paths } = used;
    const above = roots.length ? this.room(1) : 0;
    if (above) this.label[above] = functions.length + root;
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

/** Rows, ordered by what their stacks begin with, and where those of each root begin. @typedef {{begin: Uint32Array, rows: Uint32Array}} Rows */

/** Orders rows by what their stacks begin with. @param {Side} side @param {Uint32Array} rootOfThread @param {number} roots @returns {Rows} */
function byRoot({ row_thread }, rootOfThread, roots) {
  const begin = new Uint32Array(roots + 1), { length } = row_thread;
  for (let row = 0; row < length; row++) begin[rootOfThread[row_thread[row]] + 1]++;
  for (let root = 0; root < roots; root++) begin[root + 1] += begin[root];
  const rows = new Uint32Array(length), next = begin.slice();
  for (let row = 0; row < length; row++) rows[next[rootOfThread[row_thread[row]]]++] = row;
  return { begin, rows };
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
