// The bar: views, search, the filters that are active, and how things are drawn.

import { element, percent, short } from "./text.js";
import { VIEWS } from "./views.js";
import { FILTERS, START } from "./state.js";

/** @import {App} from "./main.js" */
/** @import {State} from "./state.js" */

/** Choices: the field, what it is called, its values and their names, and the views that have it. */
/** @type {[keyof State, string, [string, string][], string[]?][]} */
const CHOICES = [
  ["metric", "what is counted", [["weight", "by weight"], ["samples", "by samples"]]],
  ["root", "what stacks begin with", [["process", "below processes"], ["thread", "below threads"], ["none", "functions only"]]],
  ["order", "order of siblings", [["name", "ordered by name"], ["weight", "heaviest left"]], ["flame"]],
  ["up", "where the root is", [["top", "root on top"], ["bottom", "root at the bottom"]], ["flame", "chart"]],
  ["color", "what colors say: of kinds, red is user code, orange the kernel, blue Python, green Java, pink PHP, olive JavaScript, aqua inlined, grey without a name, yellow what stacks begin with", [["kind", "color: kind"], ["image", "color: image"], ["trust", "color: doubtful stacks"], ["wait", "color: kind of wait"], ["change", "color: change"]], ["flame", "chart"]],
  ["merge", "what is merged", [["", "inlined functions apart"], ["physical", "inlined in their callers"], ["image", "images as frames"]]],
];

/** Switches. @type {[keyof State, string, string[]?][]} */
const SWITCHES = [["inverted", "inverted", ["flame", "tree"]], ["collapse", "recursion once"]];

export class Bar {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.find = element("input", {
      type: "search", placeholder: "search functions: part of a name, or /regex/", "aria-label": "Search functions", id: "find",
      input: () => app.adjust({ search: this.find.value }),
    });
    this.result = element("output", { id: "found" });
    this.views = element("div", { class: "views", role: "tablist", "aria-label": "Views" });
    this.filters = element("div", { class: "filters", "aria-label": "Filters" });
    this.choices = element("div", { class: "choices" });
    this.element = element("div", { class: "bar" }, this.views, this.find, this.result, this.choices, this.filters);
    this.help = helpOf();
  }

  draw() {
    const { app } = this, { state } = app;
    this.views.replaceChildren(...VIEWS.filter(([name]) => name !== "compare" || app.page.diff).map(([name, title], i) => element("button", {
      role: "tab", "aria-selected": String(name === state.view), title: `key ${i + 1}`, "data-view": name, click: () => app.set({ view: name }),
    }, title)));
    if (this.find !== document.activeElement) this.find.value = state.search;
    const { wrong } = app.found();
    this.result.textContent = !state.search ? "" : wrong ? `wrong expression: ${wrong}` : `${percent(app.foundShare())} of everything`;
    this.choices.replaceChildren(...this.selects(), ...this.switches(), this.eventsOf(), this.processesOf(), this.buttons());
    this.filters.replaceChildren(...this.chips());
  }

  /** @returns {Node[]} */
  selects() {
    const { state, page: { sides } } = this.app;
    /** What not every page can color. @type {Record<string, boolean>} */
    const has = { change: sides.length > 1, wait: sides.some((side) => side.waits.length > 0) };
    const kinds = CHOICES.filter(([, , , views]) => !views || views.includes(state.view));
    const shown = kinds.map(([field, title, values]) => {
      const possible = values.filter(([value]) => has[value] ?? true);
      return this.select(title, possible, String(state[field]), (value) => this.app.set(/** @type {any} */ ({ [field]: value, ...(field === "root" ? { zoom: "" } : {}) })), field);
    });
    if (this.app.page.sides.length > 1) {
      shown.unshift(this.select("recording", [["0", "before"], ["1", "after"]], String(state.side), (value) => this.app.set({ side: Number(value) }), "side"));
    }
    return shown;
  }

  /** @param {string} title @param {[string, string][]} values @param {string} chosen @param {(value: string) => void} does @param {string} name */
  select(title, values, chosen, does, name) {
    const options = values.map(([value, text]) => element("option", { value, selected: value === chosen }, text));
    const select = element("select", { "aria-label": title, title, "data-field": name, change: (/** @type {any} */ event) => does(event.target.value) }, ...options);
    return element("label", {}, select);
  }

  /** @returns {Node[]} */
  switches() {
    const { app } = this, { state } = app;
    return SWITCHES.filter(([, , views]) => !views || views.includes(state.view)).map(([field, title]) => element("label", {},
      element("input", { type: "checkbox", checked: Boolean(state[field]), "data-field": field, change: () => app.set(/** @type {any} */ ({ [field]: !state[field], zoom: "" })) }), title));
  }

  eventsOf() {
    const { app } = this, { state } = app, names = [...new Set(app.page.sides.flatMap((side) => side.events.map((event) => event.name)))];
    if (names.length < 2) return element("span");
    const usual = app.side().events.filter((event) => event.is_shown).map((event) => event.name).join(" + ");
    return this.select("events", [["", `events: ${usual}`], ...names.map((name) => /** @type {[string, string]} */ ([name, name === "waker" ? "waker: waits of others that it ended" : name]))], state.event[0] ?? "", (value) => app.set({ event: value ? [value] : [] }), "event");
  }

  processesOf() {
    const { app } = this, weights = new Map(), names = new Map(), { side, number } = app.chosen();
    const ofThread = new Float64Array(side.threads.length);
    const { row_thread } = side;
    for (let row = 0; row < number.length; row++) ofThread[row_thread[row]] += number[row];
    side.threads.forEach((thread, i) => {
      const { processKey, process } = thread;
      weights.set(processKey, (weights.get(processKey) ?? 0) + ofThread[i]);
      names.set(processKey, process);
    });
    const list = [...names.keys()].sort((a, b) => (weights.get(b) ?? 0) - (weights.get(a) ?? 0));
    const values = list.map((key) => /** @type {[string, string]} */ ([key, names.get(key) === key ? key : `${names.get(key)} ${key}`]));
    // Processes of one name can be chosen together. No key begins with an equals sign and has a blank behind it.
    /** @type {Map<string, string[]>} */
    const byName = new Map();
    for (const key of list) byName.set(names.get(key), [...byName.get(names.get(key)) ?? [], key]);
    const several = [...byName].filter(([, keys]) => keys.length > 1);
    const together = several.map(([name, keys]) => /** @type {[string, string]} */ ([`= ${name}`, `${keys.length} × ${name}`]));
    const { process } = app.state, are = several.find(([, keys]) => keys.length === process.length && keys.every((key) => process.includes(key)));
    const chosen = are ? `= ${are[0]}` : process[0] ?? "", all = list.length === 1 ? "1 process" : `all ${list.length} processes`;
    const choose = (/** @type {string} */ value) => app.set({ process: byName.get(value.slice(2)) && value.startsWith("= ") ? byName.get(value.slice(2)) : value ? [value] : [], zoom: "" });
    return this.select("processes", [["", all], ...together, ...values], chosen, choose, "process");
  }

  buttons() {
    const { app } = this;
    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ does) => element("button", { title, click: does }, text);
    return element("span", { class: "does" },
      button("undo", "u, or the browser's back", () => app.undo()),
      button("reset", "r: no filters, no zoom", () => app.reset()),
      button(app.theme.dark ? "light" : "dark", "d", () => app.set({ theme: app.theme.dark ? "light" : "dark" })),
      button("?", "keys", () => this.help.showModal()),
      this.help);
  }

  /** The filters that are active, each with a way to remove it. @returns {Node[]} */
  chips() {
    const { app } = this, { state } = app, names = /** @type {const} */ ([...FILTERS, "hide"]);
    /** @type {Node[]} */
    const chips = [];
    const add = (/** @type {string} */ text, /** @type {Partial<State>} */ without) => chips.push(
      element("button", { class: "chip", title: "remove this filter", click: () => app.set(without) }, `${text} ✕`));
    if (state.from >= 0 || state.to >= 0) {
      const after = app.side().begin_s, begin = after + Math.max(state.from, 0);
      add(`time ${begin.toFixed(3)} s to ${state.to < 0 ? "the end" : `${(after + state.to).toFixed(3)} s`}`, { from: START.from, to: START.to });
    }
    for (const field of names) {
      if (field === "from" || field === "to") continue;
      const word = field === "without" ? "exclude" : field;
      state[field].forEach((value, i) => add(`${word} ${field === "image" ? short(value) : value}`, { [field]: state[field].filter((_, at) => at !== i), zoom: "" }));
    }
    return chips;
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    const typing = event.target instanceof HTMLInputElement;
    if (event.key === "/" && !typing) this.find.focus();
    else if (event.key === "?" && !typing) this.help.showModal();
    else if (event.key === "d" && !typing) this.app.set({ theme: this.app.theme.dark ? "light" : "dark" });
    else if (event.key === "Escape" && event.target === this.find) {
      this.find.value = "";
      this.find.blur();
      this.app.set({ search: "" });
    } else if (event.key === "Enter" && event.target === this.find) this.find.blur();
    else return false;
    return true;
  }
}

/** @returns {HTMLDialogElement} */
function helpOf() {
  const keys = [
    ["1 … 8", "views"], ["/", "search; Escape ends it"], ["u", "undo (the browser's back)"], ["r", "reset all filters"], ["d", "dark or light"],
    ["arrows", "move between frames, rows, threads"], ["Enter", "zoom to the frame, choose the row"], ["Escape", "zoom out"],
    ["b", "callers and callees of the chosen function"], ["f", "focus: only samples with it"], ["x", "exclude: no samples with it"],
    ["h", "hide its frames"], ["s", "its source lines and instructions"], ["Ctrl + wheel", "zoom"], ["Shift + wheel", "move"], ["drag over time", "choose a stretch of time"],
    ["+ - < >", "zoom and move in time; Escape: all time"], ["n, p", "next and previous thread in time order; next and previous wait of a thread"],
  ];
  const dialog = element("dialog", { "aria-label": "Keys" }, element("table", {}, ...keys.map(([key, text]) => element("tr", {}, element("th", {}, key), element("td", {}, text)))));
  dialog.append(element("button", { click: () => dialog.close() }, "close"));
  return dialog;
}
