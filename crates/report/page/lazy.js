// Trees that are built only where somebody looks: from leaves to callers, and from one function both ways.

import { NOTHING } from "./tree.js";

/** @import {Calls, Tree} from "./tree.js" */

/**
 * Walks a tree from some of its nodes, upwards or downwards, and merges what is alike.
 * @implements {Calls}
 */
export class Walk {
  /**
   * @param {Tree} tree
   * @param {boolean} upwards to the callers, else to the callees
   * @param {number[]} from nodes of the tree where the walk begins
   * @param {Float64Array} weight of each node of the tree, of which those in `from` count
   * @param {boolean} merges the nodes in `from` are one function, the root; else they are grouped by function
   */
  constructor(tree, upwards, from, weight, merges) {
    this.tree = tree;
    this.upwards = upwards;
    this.roots = tree.roots;
    this.ended = upwards ? "begins" : "self";
    /** @type {number[]} */
    this.label = [merges && from.length ? tree.label[from[0]] : NOTHING];
    this.parent = [0];
    this.stack = [0];
    this.total = [from.reduce((sum, node) => sum + weight[node], 0)];
    /** What has no further caller, or ended in the function itself. */
    this.own = [0];
    /** The nodes of the tree that a node stands for, each with its weight. @type {{nodes: number[], weights: number[]}[]} */
    this.members = [{ nodes: from, weights: from.map((node) => weight[node]) }];
    /** @type {(number[] | undefined)[]} */
    this.kids = [undefined];
    if (!merges) this.kids[0] = this.group(0, from.keys(), from);
  }

  /** @param {number} node @returns {number[]} */
  children(node) {
    return this.kids[node] ??= this.upwards ? this.callers(node) : this.callees(node);
  }

  /** @param {number} node @returns {number[]} */
  callers(node) {
    const { nodes } = this.members[node], { parent } = this.tree;
    const next = nodes.map((it) => parent[it]);
    return this.group(node, [...nodes.keys()].filter((i) => next[i] !== 0), next);
  }

  /** @param {number} node @returns {number[]} */
  callees(node) {
    /** @type {number[]} */
    const next = [];
    // A spread of too many arguments overflows the stack.
    for (const it of this.members[node].nodes) for (const child of this.tree.children(it)) next.push(child);
    return this.group(node, next.keys(), next, this.tree.total);
  }

  /**
   * Makes children of a node: members with one label become one.
   * @param {number} parent @param {Iterable<number>} which positions in `next` @param {number[]} next nodes of the tree
   * @param {ArrayLike<number>} [weights] of nodes of the tree; else each has the weight that it had below
   * @returns {number[]} heaviest first
   */
  group(parent, which, next, weights) {
    /** @type {Map<number, number>} */
    const known = new Map();
    const below = this.members[parent].weights;
    let left = this.total[parent];
    for (const i of which) {
      const label = this.tree.label[next[i]], weight = weights ? weights[next[i]] : below[i];
      if (!weight) continue;
      let child = known.get(label);
      if (child === undefined) {
        child = this.label.push(label) - 1;
        this.parent.push(parent);
        this.stack.push(this.tree.stack[next[i]]);
        this.total.push(0);
        this.own.push(0);
        this.members.push({ nodes: [], weights: [] });
        this.kids.push(undefined);
        known.set(label, child);
      }
      this.total[child] += weight;
      this.members[child].nodes.push(next[i]);
      this.members[child].weights.push(weight);
      left -= weight;
    }
    this.own[parent] = Math.max(left, 0);
    return [...known.values()].sort((a, b) => this.total[b] - this.total[a] || this.label[a] - this.label[b]);
  }
}

/** The tree from leaves to callers. @param {Tree} tree @returns {Walk} */
export function inverted(tree) {
  const leaves = [];
  for (let node = 1; node < tree.length; node++) if (tree.own[node] > 0) leaves.push(node);
  return new Walk(tree, true, leaves, tree.own, false);
}

/**
 * The callers and the callees of a function. A sample counts once, at the outermost frame of the function.
 * @param {Tree} tree @param {number} label @returns {{callers: Walk, callees: Walk}}
 */
export function around(tree, label) {
  const outermost = [], inside = new Uint8Array(tree.length);
  for (let node = 1; node < tree.length; node++) {
    const within = inside[tree.parent[node]];
    const is = tree.label[node] === label;
    if (is && !within) outermost.push(node);
    inside[node] = within | Number(is);
  }
  return {
    callers: new Walk(tree, true, outermost, tree.total, true),
    callees: new Walk(tree, false, outermost, tree.total, true),
  };
}
