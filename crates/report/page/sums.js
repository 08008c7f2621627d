// Sums over a tree: of functions, and of what a search finds.

/** @import {Tree} from "./tree.js" */

/**
 * Adds up each function: what ended in it, and what passed through it. Recursion counts once.
 * @param {Tree} tree @returns {{own: Float64Array, total: Float64Array}} by label
 */
export function sumsOf(tree) {
  const labels = tree.page.functions.length + tree.roots.length;
  const own = new Float64Array(labels), total = new Float64Array(labels);
  const on = new Uint32Array(labels);
  // A walk through the tree; what is entered stands on the path until all below it was visited.
  const path = [0], next = [0];
  while (path.length) {
    const node = path[path.length - 1], label = tree.label[node];
    const at = tree.begin[node] + next[next.length - 1];
    if (next[next.length - 1] === 0 && node !== 0) {
      own[label] += tree.own[node];
      if (on[label]++ === 0) total[label] += tree.total[node];
    }
    if (at < tree.begin[node + 1]) {
      next[next.length - 1]++;
      path.push(tree.child[at]);
      next.push(0);
      continue;
    }
    // A leaf is entered and left in one turn.
    if (node !== 0) on[label]--;
    path.pop();
    next.pop();
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
