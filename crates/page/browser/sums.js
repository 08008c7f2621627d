// Sums over a tree: of functions, and of what a search finds; and the order of sums.

/** @import {Tree} from "./tree.js" */

/**
 * Adds up each function: what ended in it, and what passed through it. Recursion counts once.
 * @param {Tree} tree @returns {{own: Float64Array, total: Float64Array}} by label
 */
export function sumsOf(tree) {
  const labels = tree.page.functions.length + tree.roots.length, { label, forest: { begin, child }, own: ends, total: passes } = tree;
  const own = new Float64Array(labels), total = new Float64Array(labels);
  /** How often a label is on the path from the root, which has no label of its own. */
  const on = new Uint32Array(labels + 1);
  // A walk through the tree; what is entered stands on the path until all below it was visited.
  const path = [labels], next = [begin[0]], behind = [begin[1]];
  for (let depth = 0; depth >= 0;) {
    if (next[depth] === behind[depth]) {
      on[path[depth--]]--;
      continue;
    }
    const node = child[next[depth]++], of = label[node];
    if (!passes[node]) continue;
    if (ends[node]) own[of] += ends[node];
    if (on[of] === 0) total[of] += passes[node];
    // Most nodes are leaves.
    if (begin[node] === begin[node + 1]) continue;
    on[of]++;
    depth++;
    path[depth] = of;
    next[depth] = begin[node];
    behind[depth] = begin[node + 1];
  }
  return { own, total };
}

/**
 * Finds functions by a search.
 * @param {import("./data.js").Page} page @param {string} text part of a name in any case, or /a regular expression/
 * @returns {{matches: Uint8Array, wrong: string}} 1 for each function that matches, and what is wrong with the expression
 */
export function search(page, text) {
  const matches = new Uint8Array(page.functions.length);
  if (!text) return { matches, wrong: "" };
  const pattern = /^\/(.+)\/(i?)$/.exec(text);
  try {
    const regex = pattern && new RegExp(pattern[1], pattern[2]);
    const lower = text.toLowerCase();
    page.functions.forEach((it, i) => {
      matches[i] = Number(regex ? regex.test(it.name) : it.name.toLowerCase().includes(lower));
    });
    return { matches, wrong: "" };
  } catch (error) {
    return { matches, wrong: String(/** @type {Error} */ (error).message) };
  }
}

/** Adds up the samples with a matching frame, each once. @param {Tree} tree @param {Uint8Array} matches @returns {number} */
export function shareOf(tree, matches) {
  const inside = new Uint8Array(tree.length);
  let sum = 0;
  for (let node = 1; node < tree.length; node++) {
    const within = inside[tree.parent[node]], is = matches[tree.label[node]] ?? 0;
    if (is && !within) sum += tree.total[node];
    inside[node] = within | is;
  }
  return sum;
}

/** Up to so many items are compared with each other. */
const FEW = 256;

/**
 * Orders items by numbers that are not negative; those of one number stay in their order. A million comparisons take long, so the bytes
 * of the numbers are ordered one after the other, the last first.
 * @param {Uint32Array} items positions in `by` @param {ArrayLike<number>} by @param {boolean} falls the largest number is first @returns {Uint32Array}
 */
export function ordered(items, by, falls) {
  const { length } = items;
  if (length <= FEW) return items.slice().sort(falls ? (a, b) => by[b] - by[a] : (a, b) => by[a] - by[b]);
  let order = items.slice(), next = new Uint32Array(length), numbers = new Float64Array(length), moved = new Float64Array(length);
  for (let i = 0; i < length; i++) numbers[i] = by[items[i]];
  for (let byte = 0; byte < 8; byte++) {
    const bytes = new Uint8Array(numbers.buffer), begin = new Uint32Array(257), flip = falls ? 255 : 0;
    for (let at = byte; at < bytes.length; at += 8) begin[(bytes[at] ^ flip) + 1]++;
    if (begin.includes(length)) continue;
    for (let i = 0; i < 256; i++) begin[i + 1] += begin[i];
    for (let i = 0; i < length; i++) {
      const to = begin[bytes[8 * i + byte] ^ flip]++;
      next[to] = order[i];
      moved[to] = numbers[i];
    }
    [order, next] = [next, order];
    [numbers, moved] = [moved, numbers];
  }
  return order;
}
