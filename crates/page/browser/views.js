// The list of views, in the order of their keys.

import { CallTree } from "./calls.js";
import { Code } from "./code.js";
import { Compare } from "./compare.js";
import { Flame } from "./flame.js";
import { Functions } from "./functions.js";
import { Chart } from "./chart.js";
import { TimeView } from "./time.js";
import { Heat } from "./heat.js";

/** @import {App} from "./main.js" */

/** Something that shows the state. @typedef {{element: HTMLElement, draw: () => void, key?: (event: KeyboardEvent) => boolean}} View */

/** Name, title, and what makes the view. @type {[string, string, (app: App) => View][]} */
export const VIEWS = [
  ["flame", "Flame graph", (app) => new Flame(app)],
  ["chart", "In time order", (app) => new Chart(app)],
  ["functions", "Functions", (app) => new Functions(app)],
  ["tree", "Tree", (app) => new CallTree(app)],
  ["time", "Threads", (app) => new TimeView(app)],
  ["heat", "Every second", (app) => new Heat(app)],
  ["code", "Code", (app) => new Code(app)],
  ["compare", "Changes", (app) => new Compare(app)],
];
