// The list of views, in the order of their keys.

import { Flame } from "./flame.js";

/** @import {App} from "./main.js" */

/** Something that shows the state. @typedef {{element: HTMLElement, draw: () => void, key?: (event: KeyboardEvent) => boolean}} View */

/** Name, title, and what makes the view. @type {[string, string, (app: App) => View][]} */
export const VIEWS = [
  ["flame", "Flame graph", (app) => new Flame(app)],
];
