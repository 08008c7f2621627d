// A canvas as wide as its place, sharp on any screen, that draws only what is seen of a tall picture.

import { cut } from "./text.js";

/** The height of a row of frames, px. */
export const ROW = 18;

export class Canvas {
  /**
   * @param {string} label what the picture is, for those who do not see it
   * @param {() => void} redraw
   */
  constructor(label, redraw) {
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.space = document.createElement("div");
    this.element = document.createElement("div");
    this.element.className = "scroll";
    this.element.append(this.canvas, this.space);
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.width = 0;
    this.height = 0;
    let asked = false;
    /** Draws once before the next picture of the screen, however often it is called. */
    this.soon = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => { asked = false; redraw(); });
    };
    this.element.addEventListener("scroll", this.soon);
    new ResizeObserver(this.soon).observe(this.element);
    /** How wide a character is, px. */
    this.character = 0;
  }

  /** How far the picture is scrolled, px. */
  get top() {
    return this.element.scrollTop;
  }

  /** Fits the canvas to its place, and the place to be scrolled to the picture. @param {number} tall height of the picture, px */
  begin(tall) {
    const scale = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.element;
    this.space.style.height = `${Math.max(0, tall - clientHeight)}px`;
    this.width = clientWidth;
    this.height = clientHeight;
    const [wide, high] = [Math.max(1, Math.round(clientWidth * scale)), Math.max(1, Math.round(clientHeight * scale))];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, clientWidth, clientHeight);
    this.context.font = "12px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
    this.context.textBaseline = "middle";
    this.character ||= this.context.measureText("M").width || 7;
    return this.context;
  }

  /**
   * Writes a name into a box, cut if it is too long, and always from left to right.
   * @param {string} name @param {string[] | undefined} forms shorter ones @param {number} x @param {number} y @param {number} width @param {string} color
   */
  label(name, forms, x, y, width, color) {
    const left = Math.max(x, 0), most = Math.floor((Math.min(x + width, this.width) - left - 6) / this.character);
    if (most < 3) return;
    this.context.fillStyle = color;
    this.context.direction = "ltr";
    const text = cut(name, most, forms);
    // Wide characters take more room than they are counted for.
    this.context.fillText(text, left + 3, y + ROW / 2 + 0.5, Math.min(x + width, this.width) - left - 6);
  }

  /** Where the pointer is on the picture. @param {MouseEvent} event @returns {{x: number, y: number}} */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }
}
