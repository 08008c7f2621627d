// A table of any length: only the rows that are seen are in the document. It is a table for screen readers, too.

import { element } from "./text.js";

/** The height of a row, px. */
export const LINE = 22;

/**
 * @template R
 * @typedef {object} Column
 * @property {string} title
 * @property {string} [key] rows can be ordered by this column
 * @property {string} [kind] class of its cells: `number`, `name`
 * @property {(row: R) => string | Node} cell
 * @property {(row: R) => number} [bar] share of the cell that is colored, 0 to 1
 */

/** @template R */
export class Grid {
  /**
   * @param {string} label
   * @param {Column<R>[]} columns
   * @param {{choose?: (row: R, how: "click" | "enter") => void, sort?: (key: string) => void, key?: (event: KeyboardEvent, row: R) => boolean, look?: (row: R) => string}} does `look` gives a row one more class
   */
  constructor(label, columns, does) {
    this.columns = columns;
    this.does = does;
    /** @type {ArrayLike<R> & Iterable<R>} */
    this.rows = [];
    this.at = 0;
    this.sorted = "";
    this.head = element("div", { class: "line head", role: "row" });
    this.body = element("div", { class: "body", role: "rowgroup" });
    this.element = element("div", { class: "grid", role: "grid", tabindex: 0, "aria-label": label }, this.head, this.body);
    this.element.addEventListener("scroll", () => this.paint());
    this.element.addEventListener("keydown", (event) => {
      if (!this.key(event)) return;
      event.preventDefault();
      // A view hands its keys to its table, too.
      event.stopPropagation();
    });
    this.body.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.paint()).observe(this.element);
  }

  /** @param {ArrayLike<R> & Iterable<R>} rows @param {string} sorted the column by which they are ordered */
  show(rows, sorted = "") {
    this.rows = rows;
    this.sorted = sorted;
    this.at = Math.max(0, Math.min(this.at, rows.length - 1));
    this.element.setAttribute("aria-rowcount", String(rows.length + 1));
    this.head.replaceChildren(...this.columns.map((column) => {
      const is = column.key === sorted && sorted !== "";
      const cell = element("div", { role: "columnheader", class: column.kind ?? "", "aria-sort": is ? "descending" : "none" }, column.title + (is ? " ▾" : ""));
      if (column.key && this.does.sort) {
        cell.classList.add("sorts");
        cell.addEventListener("click", () => this.does.sort?.(column.key ?? ""));
      }
      return cell;
    }));
    this.paint();
  }

  paint() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / LINE) - 5);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / LINE) + 5);
    this.body.style.height = `${this.rows.length * LINE}px`;
    const lines = [];
    for (let i = first; i < last; i++) lines.push(this.line(i));
    this.body.replaceChildren(...lines);
  }

  /** @param {number} i @returns {HTMLElement} */
  line(i) {
    const row = this.rows[i];
    const look = this.does.look?.(row) ?? "";
    const line = element("div", { class: `line ${look}`, role: "row", "aria-rowindex": i + 2, "aria-selected": String(i === this.at), "data-row": i });
    line.style.top = `${i * LINE}px`;
    for (const column of this.columns) {
      const content = column.cell(row);
      const cell = element("div", { role: "gridcell", class: column.kind ?? "" }, content);
      if (typeof content === "string") cell.title = content;
      if (column.bar) cell.style.setProperty("--share", `${Math.min(100, Math.max(0, column.bar(row) * 100))}%`);
      line.append(cell);
    }
    return line;
  }

  /** @param {MouseEvent} event */
  click(event) {
    const line = /** @type {HTMLElement?} */ (/** @type {Element} */ (event.target).closest(".line"));
    if (!line) return;
    this.at = Number(line.dataset.row);
    this.paint();
    this.does.choose?.(this.rows[this.at], "click");
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / LINE) - 2);
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: this.at + 1, ArrowUp: this.at - 1, PageDown: this.at + page, PageUp: this.at - page, Home: 0, End: this.rows.length - 1 };
    if (!this.rows.length) return false;
    if (this.does.key?.(event, this.rows[this.at])) return true;
    if (event.key === "Enter") {
      this.does.choose?.(this.rows[this.at], "enter");
      return true;
    }
    if (!(event.key in moves)) return false;
    this.go(moves[event.key]);
    return true;
  }

  /** @param {number} to */
  go(to) {
    this.at = Math.max(0, Math.min(this.rows.length - 1, to));
    const y = this.at * LINE, { scrollTop, clientHeight } = this.element;
    if (y < scrollTop) this.element.scrollTop = y;
    else if (y + 2 * LINE > scrollTop + clientHeight) this.element.scrollTop = y + 2 * LINE - clientHeight;
    this.paint();
  }
}
