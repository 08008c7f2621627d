// Decodes a file of pprof by npm's pprof-format and prints exact sums, because `go tool pprof -top` prints rounded percentages beside them.
//
//   node pprof.mjs PACKAGES FILE

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";

const [packages, file] = process.argv.slice(2);
const { Profile } = createRequire(join(resolve(packages), "package.json"))("pprof-format");
const { version } = JSON.parse(readFileSync(join(packages, "node_modules/pprof-format/package.json"), "utf8"));

const stored = readFileSync(file), gzip = stored[0] === 0x1f && stored[1] === 0x8b;
const profile = Profile.decode(gzip ? gunzipSync(stored) : stored);

/** @param {number | bigint} index @returns {string} */
const text = (index) => profile.stringTable.strings[Number(index)];
/** @param {any[]} messages @returns {Map<number, any>} */
const byId = (messages) => new Map(messages.map((it) => [Number(it.id), it]));
/** @param {Record<string, number>} counts @param {string} key @param {number} by */
const add = (counts, key, by) => (counts[key] = (counts[key] ?? 0) + by);

const locations = byId(profile.location), functions = byId(profile.function), mappings = byId(profile.mapping);

/** The functions of a location, innermost first. @param {number | bigint} id @returns {{name: string, line: number}[]} */
function frames(id) {
  const location = locations.get(Number(id));
  if (location.line.length > 0) {
    return location.line.map((/** @type {any} */ it) => ({ name: text(functions.get(Number(it.functionId)).name), line: Number(it.line) }));
  }
  // As `go tool pprof` calls it.
  const mapping = mappings.get(Number(location.mappingId));
  return [{ name: mapping ? `[${text(mapping.filename).split("/").pop()}]` : "<unknown>", line: 0 }];
}

const types = profile.sampleType.map((/** @type {any} */ it) => ({ type: text(it.type), unit: text(it.unit) }));
/** @type {{total: number, functions: Record<string, [number, number]>, lines: Record<string, Record<string, number>>}[]} */
const sums = types.map(() => ({ total: 0, functions: Object.create(null), lines: Object.create(null) }));
/** @type {Record<string, number>} */
const labels = Object.create(null);
/** @type {Record<string, string[]>} */
const values = Object.create(null);
for (const sample of profile.sample) {
  const stack = sample.locationId.flatMap(frames), names = new Set(stack.map((/** @type {any} */ it) => it.name));
  for (const [at, sum] of sums.entries()) {
    const value = Number(sample.value[at]);
    sum.total += value;
    for (const name of names) (sum.functions[name] ??= [0, 0])[1] += value;
    if (stack.length > 0) {
      sum.functions[stack[0].name][0] += value;
      add((sum.lines[stack[0].name] ??= Object.create(null)), String(stack[0].line), value);
    }
  }
  for (const label of sample.label) {
    const key = text(label.key), unit = Number(label.numUnit) ? ` ${text(label.numUnit)}` : "";
    const value = Number(label.str) ? text(label.str) : `${label.num}${unit}`;
    add(labels, key, 1);
    const known = (values[key] ??= []);
    if (known.length < 100 && !known.includes(value)) known.push(value);
  }
}

console.log(JSON.stringify({
  version, gzip, types, sums, labels, values,
  samples: profile.sample.length,
  shapes: profile.sample.every((/** @type {any} */ it) => it.value.length === types.length),
  mappings: profile.mapping.map((/** @type {any} */ it) => ({
    file: text(it.filename), build_id: text(it.buildId),
    start: Number(it.memoryStart), limit: Number(it.memoryLimit), offset: Number(it.fileOffset),
    functions: it.hasFunctions, filenames: it.hasFilenames, lines: it.hasLineNumbers, inlined: it.hasInlineFrames,
  })),
  files: Object.fromEntries(profile.function.map((/** @type {any} */ it) => [text(it.name), text(it.filename)])),
  inlined: profile.location.filter((/** @type {any} */ it) => it.line.length > 1).length,
  system_names: profile.function.filter((/** @type {any} */ it) => Number(it.systemName) === Number(it.name) && Number(it.name)).length,
  comments: profile.comment.map(text), default_type: text(profile.defaultSampleType), doc_url: profile.docUrl ? text(profile.docUrl) : "",
  period: Number(profile.period),
  period_type: profile.periodType ? { type: text(profile.periodType.type), unit: text(profile.periodType.unit) } : null,
  time_ns: Number(profile.timeNanos), duration_ns: Number(profile.durationNanos),
}));
