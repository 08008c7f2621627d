// Trees that are built only where somebody looks: from leaves to callers, and from one function both ways.

import { NOTHING } from "./paths.js";
import { ordered } from "./sums.js";

/** @import {Calls, Tree} from "./tree.js" */

/** Nodes of a tree, each with its weight. @typedef {{nodes: Uint32Array, weights: Float64Array}} Members */

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
    this.images = tree.images;
    const nodes = Uint32Array.from(from), weights = new Float64Array(nodes.length);
    let sum = 0;
    for (let i = 0; i < nodes.length; i++) sum += weights[i] = weight[nodes[i]];
    /** @type {number[]} */
    this.label = [merges && nodes.length ? tree.label[nodes[0]] : NOTHING];
    this.parent = [0];
    this.total = [sum];
    /** What has no further caller, or ended in the function itself. */
    this.own = [0];
    /** The nodes of the tree that a node stands for: a part of a list that it shares with its siblings. @type {Members[]} */
    this.members = [{ nodes, weights }];
    this.first = [0];
    this.behind = [nodes.length];
    /** The node that was made last of each label. */
    this.known = new Uint32Array(tree.page.functions.length + tree.roots.length);
    /** @type {(Uint32Array | undefined)[]} */
    this.kids = [undefined];
    if (!merges) this.kids[0] = this.group(0, this.members[0]);
  }

  /** @param {number} node @returns {Uint32Array} */
  children(node) {
    return this.kids[node] ??= this.group(node, this.upwards ? this.callers(node) : this.callees(node));
  }

  /** @param {number} node @returns {Members} each has the weight that it had below */
  callers(node) {
    const { nodes, weights } = this.members[node], { parent } = this.tree, first = this.first[node], behind = this.behind[node];
    const next = new Uint32Array(behind - first), kept = new Float64Array(behind - first);
    let length = 0;
    for (let i = first; i < behind; i++) {
      if (parent[nodes[i]] === 0) continue;
      next[length] = parent[nodes[i]];
      kept[length++] = weights[i];
    }
    return { nodes: next.subarray(0, length), weights: kept };
  }

  /** @param {number} node @returns {Members} */
  callees(node) {
    const { nodes } = this.members[node], { forest: { begin, child }, total } = this.tree, first = this.first[node], behind = this.behind[node];
    let length = 0;
    for (let i = first; i < behind; i++) length += begin[nodes[i] + 1] - begin[nodes[i]];
    const next = new Uint32Array(length), weights = new Float64Array(length);
    length = 0;
    for (let i = first; i < behind; i++) {
      for (let at = begin[nodes[i]]; at < begin[nodes[i] + 1]; at++) {
        next[length] = child[at];
        weights[length++] = total[child[at]];
      }
    }
    return { nodes: next, weights };
  }

  /** Makes children of a node: members with one label become one. @param {number} parent @param {Members} members @returns {Uint32Array} heaviest first */
  group(parent, { nodes, weights }) {
    const { known } = this, { label } = this.tree, made = this.label.length, of = new Uint32Array(nodes.length);
    let left = this.total[parent];
    for (let i = 0; i < nodes.length; i++) {
      const is = label[nodes[i]], weight = weights[i];
      if (!weight) continue;
      if (known[is] < made) {
        known[is] = this.label.push(is) - 1;
        this.parent.push(parent);
        this.total.push(0);
        this.own.push(0);
        this.behind.push(0);
      }
      of[i] = known[is];
      this.total[of[i]] += weight;
      this.behind[of[i]]++;
      left -= weight;
    }
    this.own[parent] = Math.max(left, 0);
    this.list(made, of, nodes, weights);
    const children = new Uint32Array(this.label.length - made).map((_, i) => made + i);
    return ordered(ordered(children, this.label, false), this.total, true);
  }

  /** Lists the members of new nodes, of which `behind` has the numbers. @param {number} made the first new node @param {Uint32Array} of the node of each member; 0: none @param {Uint32Array} nodes @param {Float64Array} weights */
  list(made, of, nodes, weights) {
    const members = { nodes: new Uint32Array(nodes.length), weights: new Float64Array(nodes.length) }, { first, behind } = this;
    for (let node = made, sum = 0; node < this.label.length; node++) {
      this.members.push(members);
      this.kids.push(undefined);
      sum += behind[node];
      behind[node] = first[node] = sum - behind[node];
    }
    for (let i = 0; i < nodes.length; i++) {
      if (of[i] === 0) continue;
      const at = behind[of[i]]++;
      members.nodes[at] = nodes[i];
      members.weights[at] = weights[i];
    }
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
    if (is && !within && tree.total[node]) outermost.push(node);
    inside[node] = within | Number(is);
  }
  return {
    callers: new Walk(tree, true, outermost, tree.total, true),
    callees: new Walk(tree, false, outermost, tree.total, true),
  };
}
