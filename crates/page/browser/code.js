// One function: its source lines and its instructions, with the samples that hit them.

import { amount, count, element, percent, short, things } from "./text.js";
import { openCode, unzip } from "./data.js";
import { Grid } from "./grid.js";
import { around } from "./lazy.js";
import { hitsOf, linesOf } from "./lines.js";

/** @import {CodePart, Func, Listing, Side} from "./data.js" */
/** @import {LineSum} from "./lines.js" */
/** @import {App} from "./main.js" */

/** A row; `key` names its source line. @typedef {{look: string, text: string, key: string}} Listed */
/** A source line, or a line of text between them. @typedef {Listed & {sum?: LineSum}} LineRow */
/** An instruction, or a line of text between them; `own` is negative if its samples are not known. @typedef {Listed & {own?: number, address?: string, from?: string}} CodeRow */

/** Returns true if the code of a function can be in a file. @param {Func} func */
const hasFile = (func) => func.side === 0 && func.image !== "";

/** What stands for a line in the state. @param {number} line @param {string?} file @returns {string} */
const keyOf = (line, file) => line ? `${line} ${file}` : "";

export class Code {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.whole = 1;
    const share = (/** @type {number} */ of) => of <= 0 ? "" : app.state.metric === "samples" ? count(of) : percent(of / this.whole);
    /** What both tables do with a `Listed`. @type {{look: (it: any) => string, choose: (it: any) => void}} */
    const does = {
      look: (it) => it.key && it.key === app.state.line ? `${it.look} marked` : it.look,
      choose: (it) => app.set({ line: it.key }),
    };
    const ofLine = (/** @type {LineRow} */ it, /** @type {"own" | "total"} */ which) => it.sum?.[which] ?? 0;
    /** @type {Grid<LineRow>} */
    this.source = new Grid("Source lines", [
      { title: "self", kind: "number", cell: (it) => share(ofLine(it, "own")), bar: (it) => ofLine(it, "own") / this.whole },
      { title: "total", kind: "number", cell: (it) => share(ofLine(it, "total")), bar: (it) => ofLine(it, "total") / this.whole },
      { title: "line", kind: "number", cell: (it) => it.sum ? String(it.sum.line || "?") : "" },
      { title: "source", kind: "source", cell: (it) => it.text },
    ], does);
    const ofCode = (/** @type {CodeRow} */ it) => it.own ?? 0;
    /** @type {Grid<CodeRow>} */
    this.code = new Grid("Instructions", [
      { title: "self", kind: "number", cell: (it) => share(ofCode(it)), bar: (it) => ofCode(it) / this.whole },
      { title: "address", kind: "number", cell: (it) => it.address ?? "" },
      { title: "instruction", kind: "source", cell: (it) => it.text },
      { title: "line", cell: (it) => it.from ?? "" },
    ], does);
    this.title = element("h4");
    this.element = element("div", { class: "stacked" }, this.title, element("div", { class: "pair" }, this.source.element, this.code.element));
    /** What a server was asked for, and what is wrong with its answer. @type {Map<string, string>} */
    this.asked = new Map();
    /** The function that was shown last. */
    this.shown = "";
  }

  draw() {
    const { app } = this, { functions } = app.page, side = app.side(), chosen = app.chosen();
    const label = app.state.selected >= 0 ? app.state.selected : this.hottest(), func = functions[label];
    if (!func) return;
    this.whole = chosen.total || 1;
    const listing = this.listing(side, label);
    const key = [...app.filters(), side.index, label, Boolean(listing)];
    const lines = app.derive("lines", key, () => linesOf(chosen, label));
    this.title.textContent = `${func.name} of ${short(func.image) || "?"} · self ${amount(app.sums().own[label], chosen.unit)}${listing ? "" : ` · ${this.without(side, label, func)}`}`;
    const source = app.derive("source rows", key, () => sourceRows(lines, listing));
    const code = app.derive("code rows", key, () => listing ? codeRows(listing, func, (part) => hitsOf(chosen, part)) : []);
    this.source.show(source);
    this.code.show(code);
    // The function stands beside, with what can be done with it.
    app.inspect(app.derive("around", [...app.shape(), label], () => around(app.expanded(), label)).callees, 0);
    const shown = `${side.index} ${label} ${Boolean(listing)}`;
    if (app.state.line) this.reveal();
    else if (shown !== this.shown) {
      this.source.go(hottestOf(source, (row) => row.sum?.own ?? 0));
      this.code.go(hottestOf(code, (row) => row.own ?? 0));
    }
    this.shown = shown;
  }

  /** Scrolls to what belongs to the chosen line. */
  reveal() {
    for (const grid of /** @type {Grid<any>[]} */ ([this.source, this.code])) {
      const rows = Array.from(grid.rows), is = (/** @type {any} */ row) => row.key === this.app.state.line;
      if (rows.length && !is(rows[grid.at])) grid.go(Math.max(0, rows.findIndex(is)));
    }
  }

  /** Finds the code of a function; a page that is served asks for it. @param {Side} side @param {number} label @returns {Listing | undefined} */
  listing(side, label) {
    const known = side.listings.get(label), func = this.app.page.functions[label], name = `${side.index} ${label}`;
    if (known || !this.app.page.is_served || !hasFile(func) || this.asked.has(name)) return known;
    this.asked.set(name, "asking for its code…");
    this.ask(side, label).then(() => this.asked.delete(name), (error) => this.asked.set(name, `its code cannot be had: ${error.message}`)).then(() => this.app.draw());
    return undefined;
  }

  /** @param {Side} side @param {number} label */
  async ask(side, label) {
    const answer = await fetch(`code?side=${side.index}&function=${side.labels.indexOf(label)}`);
    if (!answer.ok) throw new Error(answer.status === 404 ? "the recording does not have this function" : await answer.text());
    for (const listing of openCode(await unzip(await answer.arrayBuffer()))) side.listings.set(label, listing);
  }

  /** Says why there is no code. @param {Side} side @param {number} label @param {Func} func @returns {string} */
  without(side, label, func) {
    const asked = this.asked.get(`${side.index} ${label}`);
    if (asked) return asked;
    if (!hasFile(func)) return "its code is in no file";
    return `this page has the source and the instructions of the ${things(side.listings.size, "hottest function")}: write one with html --code N, or see icecore-report annotate`;
  }

  /** @returns {number} */
  hottest() {
    const { own } = this.app.sums();
    let best = -1;
    for (let label = 0; label < this.app.page.functions.length; label++) if (own[label] > (own[best] ?? 0)) best = label;
    return best;
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    return (document.activeElement === this.code.element ? this.code : this.source).key(event);
  }
}

/** @param {string} look `title` or `gap` @param {string} text @returns {Listed} */
function said(look, text) {
  return { look, text, key: "" };
}

/** Lists lines file by file: those of the text, and all with samples. @param {LineSum[]} sums @param {Listing | undefined} listing @returns {LineRow[]} */
function sourceRows(sums, listing) {
  /** @type {LineRow[]} */
  const rows = [];
  const files = new Set([...sums.map((it) => it.file), ...listing?.sources.map((it) => it.file ?? "") ?? []]);
  for (const file of files) {
    const source = listing?.sources.find((it) => (it.file ?? "") === file);
    rows.push(said("title", `${file || "no file is known"}${source ? proofOf(source) : ""}`));
    const text = new Map(source?.lines ?? []), hit = new Map(sums.filter((it) => it.file === file).map((it) => [it.line, it]));
    const numbers = [...new Set([...text.keys(), ...hit.keys()])].sort((a, b) => a - b);
    numbers.forEach((line, i) => {
      if (text.size && i > 0 && line > numbers[i - 1] + 1) rows.push(said("gap", "⋮"));
      rows.push({ look: "", sum: hit.get(line) ?? { file, line, own: 0, total: 0 }, text: text.get(line) ?? (line ? "" : "no line is known"), key: keyOf(line, file) });
    });
  }
  return rows;
}

/** @param {import("./data.js").SourceText} source @returns {string} */
function proofOf({ why, proof, origin, is_newer }) {
  if (why) return ` · no text: ${why}`;
  if (!proof) return "";
  const where = origin === "recording" ? "from the recording" : "from the machine that wrote this page";
  return ` · ${where}, ${proof === "md5" ? "proven: it has the MD5 of what was compiled" : `unchecked${is_newer ? ", and newer than the program" : ""}`}`;
}

/** Lists the instructions of all parts. @param {Listing} listing @param {Func} func @param {(part: CodePart) => Float64Array?} hits @returns {CodeRow[]} */
function codeRows(listing, func, hits) {
  /** @type {CodeRow[]} */
  const rows = [];
  for (const part of listing.parts) {
    const own = hits(part), begin = BigInt(`0x${part.begin}`), isWhole = part.name === null || part.name === func.name;
    const where = `${part.name ?? func.name} · ${short(part.image)}, ${part.bytes} bytes, code from: ${part.from}`;
    rows.push(said("title", own ? where : `${where} · samples were added up, so it is not known which instructions they hit`));
    let next = 0;
    const gap = (/** @type {number} */ to) => { if (to > next) rows.push(said("gap", `⋮ ${things(to - next, "byte")} of code that was not hit`)); };
    part.at.forEach((at, i) => {
      gap(at);
      next = at + part.length[i];
      const chain = part.chains[part.chain[i]], of = chain.findLast(([name]) => name === func.name), [name, file, line] = chain[0] ?? ["", null, 0];
      rows.push({
        look: isWhole || of ? "" : "aside",
        own: own ? own[i] : -1,
        address: (begin + BigInt(at)).toString(16),
        text: part.text[i],
        from: chain.length > 1 ? `${short(file ?? "?")}:${line || "?"} ${name}` : file ? `${short(file)}:${line || "?"}` : "",
        key: of ? keyOf(of[2], of[1]) : "",
      });
    });
    gap(part.bytes);
  }
  if (listing.left_out) rows.push(said("gap", `⋮ ${things(listing.left_out, "hit place")} in further stretches of code, left out`));
  return [...rows, ...listing.missing.map((text) => said("gap", text))];
}

/** @template R @param {R[]} rows @param {(row: R) => number} weight @returns {number} the position of the heaviest; 0 if there are no samples */
function hottestOf(rows, weight) {
  let best = 0;
  for (let i = 1; i < rows.length; i++) if (weight(rows[i]) > weight(rows[best])) best = i;
  return best;
}
