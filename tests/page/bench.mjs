// Measures pages in a browser, and prints one line of JSON for each: bench.mjs [--profile] PAGE...
//
// `shown_ms`: from the navigation to the picture after the data were there; `zoom_ms` and `filter_ms`: medians and the
// longest; `heap_bytes`: objects of the script, `arrays_bytes`: what its arrays hold; `later_bytes`: both, after all filters and
// views. `--profile` also lists the functions in which time was spent, on standard error.

import { pathToFileURL } from "node:url";
import { browser, close } from "./browser.mjs";

/** @param {number[]} all */
function spread(all) {
  const sorted = [...all].sort((a, b) => a - b);
  const at = (/** @type {number} */ part) => Number((sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN).toFixed(1));
  return { median: at(0.5), longest: at(1) };
}

/** @param {import("playwright-core").Page} page @param {() => Promise<void>} act @returns {Promise<number[]>} times between pictures, ms */
async function pictures(page, act) {
  await page.evaluate(() => {
    const times = /** @type {any} */ (window).times = [];
    let before = performance.now();
    const next = () => {
      const now = performance.now();
      times.push(now - before);
      before = now;
      if (/** @type {any} */ (window).times === times) requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  await act();
  return page.evaluate(() => {
    const { times } = /** @type {any} */ (window);
    /** @type {any} */ (window).times = null;
    return times.slice(1);
  });
}

/** How long the page takes to show another state, ms. @param {import("playwright-core").Page} page @param {string} fragment */
function change(page, fragment) {
  return page.evaluate((fragment) => new Promise((done) => {
    const begin = performance.now();
    window.addEventListener("hashchange", () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin))), { once: true });
    location.hash = fragment;
  }), fragment);
}

/** Lists functions by the time in them. @param {any} profile of the DevTools protocol @returns {string} */
function hottest(profile) {
  const names = new Map(profile.nodes.map((/** @type {any} */ it) => [it.id, it.callFrame.functionName || "(anonymous)"]));
  const times = new Map();
  profile.samples.forEach((/** @type {number} */ id, /** @type {number} */ i) => times.set(names.get(id), (times.get(names.get(id)) ?? 0) + profile.timeDeltas[i] / 1000));
  const rows = [...times].filter(([name]) => name !== "(idle)").sort((a, b) => b[1] - a[1]).slice(0, 15);
  return rows.map(([name, ms]) => `${ms.toFixed(0).padStart(8)} ms  ${name}`).join("\n");
}

const isProfiled = process.argv[2] === "--profile";
for (const path of process.argv.slice(isProfiled ? 3 : 2)) {
  const context = await (await browser()).newContext({ viewport: { width: 1400, height: 850 } });
  const page = await context.newPage(), tools = await context.newCDPSession(page);
  page.on("pageerror", (error) => console.error(error.stack));
  await page.addInitScript(() => new MutationObserver((_, observer) => {
    if (!document.documentElement?.dataset.loaded) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { /** @type {any} */ (window).shown = performance.now(); }));
  }).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-loaded"] }));
  const profiled = async (/** @type {string} */ what, /** @type {() => Promise<any>} */ act) => {
    if (!isProfiled) return act();
    await tools.send("Profiler.enable");
    await tools.send("Profiler.start");
    const result = await act();
    console.error(`${what}\n${hottest((await tools.send("Profiler.stop")).profile)}`);
    return result;
  };
  const shown = await profiled("load", async () => {
    await page.goto(pathToFileURL(path).href, { timeout: 600_000 });
    await page.waitForFunction(() => /** @type {any} */ (window).shown, null, { timeout: 600_000 });
    return page.evaluate(() => /** @type {any} */ (window).shown);
  });
  await tools.send("HeapProfiler.collectGarbage");
  const heap = /** @type {any} */ (await tools.send("Runtime.getHeapUsage"));
  const box = await page.locator("#main canvas").boundingBox();
  await page.mouse.move((box?.x ?? 0) + 300, (box?.y ?? 0) + 40);
  const zoom = await profiled("zoom", () => pictures(page, async () => {
    await page.keyboard.down("Control");
    for (let turn = 0; turn < 60; turn++) await page.mouse.wheel(0, turn < 40 ? -60 : 100);
    await page.keyboard.up("Control");
  }));
  const views = await page.locator("[data-view]").evaluateAll((all) => all.map((it) => it.getAttribute("data-view") ?? ""));
  const filters = await profiled("filters", async () => {
    const all = [];
    for (const fragment of ["from=0.2&to=0.9", "from=0.3&to=1", "process=2000", "inverted=true", "search=function_1", "focus=function_100", "hide=function_100", ""]) all.push(Number(await change(page, fragment)));
    return all;
  });
  /** @type {Record<string, number>} */
  const shows = {};
  await profiled("views", async () => {
    for (const view of views) shows[view] = Math.round(Number(await change(page, `view=${view}`)));
  });
  await tools.send("HeapProfiler.collectGarbage");
  const later = /** @type {any} */ (await tools.send("Runtime.getHeapUsage"));
  console.log(JSON.stringify({
    shown_ms: Math.round(shown), heap_bytes: heap.usedSize, arrays_bytes: heap.backingStorageSize ?? 0,
    later_bytes: later.usedSize + (later.backingStorageSize ?? 0),
    zoom_ms: spread(zoom), filter_ms: spread(filters), views_ms: shows,
  }));
  await context.close();
}
await close();
