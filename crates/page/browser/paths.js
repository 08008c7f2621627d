// All stacks of a page, those with the same functions as one. Everything here is a loop: stacks may be 10,000 frames deep.

import { which } from "./choose.js";

/** @import {Page} from "./data.js" */
/** @import {State} from "./state.js" */

/** The label of the root of everything. */
export const NOTHING = 0xffffffff;

/** Labelled nodes, made one after the other: a parent comes before its children. */
export class Nodes {
  /** @param {number} most how many there may be; `room` makes more */
  constructor(most) {
    this.length = 1;
    this.label = new Uint32Array(most).fill(NOTHING, 0, 1);
    this.parent = new Uint32Array(most);
    /** Nodes by parent and label, as far as `childOf` has made them. */
    this.slots = new Uint32Array(0);
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

  /** Prepares `childOf`, which then makes no more nodes than there is room for. */
  index() {
    this.slots = new Uint32Array(2 ** Math.ceil(Math.log2(this.label.length * 1.5)));
  }

  /** Finds the child of a node, or makes it. @param {number} parent @param {number} label @returns {number} */
  childOf(parent, label) {
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

  /**
   * Copies nodes without those that are hidden. What a hidden one called stands beside what its caller called, so below that caller nodes
   * may become one; all others stay.
   * @param {Nodes} all @param {Uint8Array} hidden 1 for each label that is @returns {Uint32Array} what each node of `all` became: where it is hidden, its caller
   */
  copy({ label, parent, length }, hidden) {
    this.index();
    const node = new Uint32Array(length), isMixed = new Uint8Array(length), { label: labels, parent: parents } = this;
    for (let at = 1; at < length; at++) if (hidden[label[at]]) isMixed[parent[at]] = 1;
    for (let at = 1; at < length; at++) {
      const caller = parent[at], above = node[caller], is = label[at];
      if (isMixed[caller]) {
        isMixed[at] = 1;
        node[at] = hidden[is] ? above : this.childOf(above, is);
      } else {
        const made = node[at] = this.length++;
        labels[made] = is;
        parents[made] = above;
      }
    }
    return node;
  }

  /** Gives back the room that was not needed. */
  close() {
    this.label = this.label.slice(0, this.length);
    this.parent = this.parent.slice(0, this.length);
    this.slots = new Uint32Array(0);
  }
}

/** @param {Uint32Array} from @param {number} length */
function longer(from, length) {
  const into = new Uint32Array(length);
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

/** The paths of all stacks. Filters do not change them; only what is hidden, collapsed or merged does. */
export class Paths extends Nodes {
  /** @param {Page} page @param {State} state */
  constructor(page, state) {
    super(page.sides.reduce((sum, side) => sum + side.up.length, 1));
    /** @type {string[]} */
    this.roots = [];
    this.images = state.merge === "image";
    this.index();
    const how = rules(page, state);
    /** The node of each stack, by recording. */
    this.node = page.sides.map(({ up, stack_function, stack_frame, frame_inlined }) => {
      const node = new Uint32Array(up.length);
      for (let stack = 1; stack < node.length; stack++) {
        const above = node[up[stack]], isTaken = how.physical && frame_inlined[stack_frame[stack]];
        node[stack] = isTaken ? above : this.step(above, stack_function[stack], how);
      }
      return node;
    });
    this.close();
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
    return this.childOf(node, label);
  }
}

/** What becomes of functions: 1 for those that are hidden, null if none is, what stands for an image, and whether inlined functions are part of that into which they were inlined. @typedef {{hidden: Uint8Array?, collapse: boolean, image: Uint32Array?, physical: boolean}} Rules */

/** @param {Page} page @param {State} state @returns {Rules} */
function rules(page, { hide, collapse, merge }) {
  return { hidden: hide.length ? hiddenOf(page, hide) : null, collapse, image: merge === "image" ? firstOfImage(page.imageOf) : null, physical: merge === "physical" };
}

/** Lists for each function one that stands for its image. @param {Uint32Array} imageOf @returns {Uint32Array} */
function firstOfImage(imageOf) {
  const first = new Map();
  imageOf.forEach((image, i) => { if (!first.has(image)) first.set(image, i); });
  return imageOf.map((image) => first.get(image) ?? 0);
}

/** @param {Page} page @param {string[]} hide names @returns {Uint8Array} 1 for each function that is hidden */
export function hiddenOf(page, hide) {
  return which(page, (it) => hide.includes(it.name));
}
