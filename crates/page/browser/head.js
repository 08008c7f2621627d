// What the recording is and how good it is: above everything else, because it decides what the rest is worth.

import { bytes, count, duration, element, percent, things } from "./text.js";

/** @import {Side} from "./data.js" */
/** @import {App} from "./main.js" */

/** @param {App} app @returns {Node[]} */
export function headOf(app) {
  const sides = app.page.sides.map((side, i) => element("div", { class: "side" }, ...sideOf(app, side, i)));
  return app.page.renamed ? [...sides, element("p", {}, app.page.renamed)] : sides;
}

/** Right stacks that lack names are not misleading.
 * @param {Side["summary"]} summary @returns {string} */
function verdictText(summary) {
  if (summary.names_verdict === "good") return summary.stacks_verdict;
  const but = summary.stacks_verdict === "good" ? "but" : "and";
  const some = summary.names_verdict === "usable" ? "some" : "most";
  return `${summary.stacks_verdict}, ${but} ${some} names are missing`;
}

/** @param {App} app @param {Side} side @param {number} i @returns {Node[]} */
function sideOf(app, side, i) {
  const { summary, health } = side;
  const role = app.page.sides.length > 1 ? ["before: ", "after: "][i] : "";
  const verdict = element("span", { class: `verdict ${summary.verdict}` }, verdictText(summary));
  const facts = [
    things(summary.samples, "sample"),
    `${summary.duration_s.toFixed(2)} s`,
    summary.hosts.join(", "),
    new Date(side.start_unix_ms).toISOString().replace("T", " ").slice(0, 19) + " UTC",
    `${percent(summary.named_share)} of frames named`,
    `${percent(summary.rooted_share)} of user stacks reach a root`,
    lossesOf(side),
    costOf(side),
    ...(side.filter ? [`only ${side.filter}`] : []),
  ];
  const notes = [
    ...(side.is_rounded ? [`More than 10 million samples: neighbours with one stack were added up, and times are rounded to ${duration(side.unit_ns)}.`] : []),
    ...(summary.damage.length ? [`The file is damaged in ${things(summary.damage.length, "place")}: see icecore-report verify.`] : []),
    ...health.advice,
  ];
  const more = element("details", {}, element("summary", {}, verdict, element("b", {}, role + side.file), " ", element("span", {}, facts.filter(Boolean).join(" · "))));
  more.append(
    ...notes.map((note) => element("p", {}, note)),
    element("p", {}, `recorded by ${summary.recorder || "?"}: ${summary.command_line.join(" ")}`),
    element("p", {}, `Linux ${summary.kernel_release}, ${summary.arch}, ${things(summary.cpus.length, "CPU")} · ${bytes(summary.file_bytes)}`),
  );
  return [more];
}

/** @param {Side} side @returns {string} */
function lossesOf({ summary }) {
  if (summary.lost === 0) return "no sample lost";
  const causes = Object.entries(summary.lost_by_cause).filter(([, n]) => Number(n) > 0).map(([cause, n]) => `${cause} ${count(Number(n))}`);
  return `${things(summary.lost, "sample")} lost (${causes.join(", ")})`;
}

/** @param {Side} side @returns {string} */
function costOf({ summary }) {
  const { receipt } = summary;
  return receipt?.cpu_s === undefined ? "" : `recorder ${receipt.cpu_s.toFixed(2)} s CPU`;
}
