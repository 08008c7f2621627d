// Numbers and names as people read them, in the words of the command line.

/** @param {number} share 0 to 1 @returns {string} */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value !== 0 && Math.abs(value) < 0.005) return value < 0 ? "> -0.01%" : "< 0.01%";
  return `${value.toFixed(Math.abs(value) < 10 ? 2 : 1)}%`;
}

/** @param {number} number @returns {string} */
export function count(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @param {number} number @param {string} thing @returns {string} */
export function things(number, thing) {
  return `${count(number)} ${thing}${number === 1 ? "" : "s"}`;
}

/** @param {number} ns @returns {string} */
export function duration(ns) {
  const abs = Math.abs(ns);
  if (abs >= 100e9) return `${(ns / 1e9).toFixed(0)} s`;
  if (abs >= 1e9) return `${(ns / 1e9).toFixed(2)} s`;
  if (abs >= 1e6) return `${(ns / 1e6).toFixed(1)} ms`;
  if (abs >= 1e3) return `${(ns / 1e3).toFixed(1)} µs`;
  return `${ns.toFixed(0)} ns`;
}

/** @param {number} number @returns {string} */
export function bytes(number) {
  for (const [unit, size] of /** @type {[string, number][]} */ ([["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])) {
    if (Math.abs(number) >= size) return `${(number / size).toFixed(1)} ${unit}`;
  }
  return `${number.toFixed(0)} B`;
}

/** @param {number} value @param {string} unit @returns {string} */
export function amount(value, unit) {
  if (unit === "ns") return duration(value);
  if (unit === "bytes") return bytes(value);
  return `${count(value)} ${unit}`;
}

/** The last part of a path. @param {string} path @returns {string} */
export function short(path) {
  const bare = path.replace(/ \(deleted\)$/, "");
  return bare.slice(bare.lastIndexOf("/") + 1) || bare;
}

/** Cuts a name in the middle, where it says least; a shorter form that fits is better. @param {string} name @param {number} most characters @param {string[]} [forms] shorter forms, the longest first @returns {string} */
export function cut(name, most, forms = []) {
  const fitting = [name, ...forms].find((form) => form.length <= most);
  if (fitting !== undefined) return fitting;
  name = forms.at(-1) ?? name;
  if (most < 3) return "";
  const head = Math.ceil((most - 1) * 0.6);
  return `${name.slice(0, head)}…${name.slice(name.length - (most - 1 - head))}`;
}

/**
 * Makes an element. Text is only ever text: nothing here parses HTML.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number | boolean | ((event: any) => void)>} [attributes] functions are listeners
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children);
  return made;
}
