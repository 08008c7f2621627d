// The data of the page: columns of a gzip stream become typed arrays. crates/page/src/columns.rs writes what is read here.

/**
 * An event that was sampled.
 * @typedef {{name: string, unit: string, is_shown: boolean, is_wait: boolean, is_of_cpu: boolean, is_drawn: boolean}} EventKind
 */
/**
 * A thread. Filters name it and its process by keys: by numbers, and by names where two recordings are compared.
 * @typedef {{tgid: number, tid: number, comm: string, process: string, host: string?, cgroup: string?, processKey: string, key: string}} Thread
 */
/** @typedef {{owner: {tgid?: number, comm?: string, cgroup?: string}?, host: string?, name: string, unit: string, is_sum: boolean, values: [number, number][]}} Counter */

/**
 * A stretch of code: some of its instructions, and which samples hit them. Addresses are those of the image.
 * @typedef {object} CodePart
 * @property {string?} name
 * @property {string} image
 * @property {string} from where the code was found
 * @property {string} begin its first address, hexadecimal
 * @property {number} bytes
 * @property {number} instructions how many it has
 * @property {number[]} at of each instruction the distance from `begin`
 * @property {number[]} length bytes
 * @property {string[]} text
 * @property {number[]} chain a position in `chains`
 * @property {[string, string | null, number][][]} chains functions with file and line, innermost first: each was inlined into the next
 * @property {{sample: Uint32Array, at: Uint32Array}} [hits] samples, and the instruction that each hit; none if samples were added up
 */
/** A source text, or why there is none. @typedef {{file: string?, proof: string?, origin: string?, is_newer: boolean, why: string, lines: [number, string][]}} SourceText */
/** The code of a function. @typedef {{function: number, sources: SourceText[], parts: CodePart[], missing: string[], left_out: number}} Listing */

/**
 * One recording. Positions begin at 0; stack 0 is the empty stack, and a caller comes before its callees.
 * @typedef {object} Side
 * @property {number} index
 * @property {string} file
 * @property {any} summary the document of `summary --json`
 * @property {any} health the document of `health --json`
 * @property {string?} filter
 * @property {number} unit_ns what a time of 1 is
 * @property {boolean} is_rounded samples were added up, because there are too many
 * @property {number} begin_s when time 0 is, after the start of the session
 * @property {number} length the end of the recording, as a time
 * @property {[number, number][]} unsampled when nobody sampled before that end: the recorder paused, or did not run
 * @property {number} start_unix_ms
 * @property {EventKind[]} events
 * @property {Thread[]} threads
 * @property {{kind: string, waker: string}[]} waits
 * @property {{walked: boolean, rooted: boolean, guessed: boolean, cut: boolean, in_kernel: boolean}[]} taken how samples were taken; `walked`: they have a user stack
 * @property {Counter[]} counters
 * @property {Map<number, Listing>} listings the code of functions, by their positions in `Page.functions`
 * @property {Uint32Array} labels what the recording calls its functions, as positions in `Page.functions`
 * @property {Uint32Array} up the caller of each stack
 * @property {Uint32Array} stack_frame the innermost frame of each stack
 * @property {Uint32Array} stack_function its function, a position in `Page.functions`
 * @property {Uint32Array} frame_function
 * @property {Uint32Array} frame_file a position in `text`, and 1 more; 0: unknown
 * @property {Uint32Array} frame_line 0: unknown
 * @property {Uint8Array} frame_inlined
 * @property {string[]} text
 * @property {Uint32Array} row_stack
 * @property {Uint8Array} row_event
 * @property {Uint32Array} row_wait a position in `waits`, and 1 more; 0: no wait
 * @property {Uint32Array} row_taken
 * @property {Uint32Array} row_thread
 * @property {{weight: Float64Array, number: Float64Array}} [row_sums] of all samples of each row; `choose` makes it
 * @property {Uint32Array} thread_begin the first sample of each thread, then the number of samples
 * @property {Uint32Array} sample_time samples are ordered by thread and time; a wait has the time at which the thread ran again
 * @property {Uint32Array} sample_row
 * @property {Uint32Array} sample_lasted how long a wait lasted
 * @property {Uint32Array} sample_late how long after the end of a wait the thread ran again: meanwhile it waited for a CPU
 * @property {Uint32Array} sample_cpu
 * @property {Float64Array} sample_weight
 * @property {Uint32Array} sample_number how many samples this is
 */

/**
 * A function, alike in both recordings.
 * @typedef {{name: string, image: string, side: number, language: number, reason: string}} Func
 */
/** @typedef {{title: string, version: string, is_served: boolean, sides: Side[], diff: any, renamed?: string, functions: Func[], byName: Uint32Array, forms: Map<string, string[]>, images: string[], imageOf: Uint32Array}} Page */

/** Returns true if the user stack of samples is cut, guessed, or reaches no root. @param {Side["taken"][number]} taken @returns {boolean} */
export function isDoubtful({ walked, rooted, guessed }) {
  return guessed || walked && !rooted;
}

/** What a frame of a function is. */
export const KERNEL = 1;

/** Returns when a wait ended; of any other sample when it was taken. @param {Side} side @param {number} sample @returns {number} */
export function endedAt(side, sample) {
  return side.sample_time[sample] - side.sample_late[sample];
}

/** Returns when a wait began. @param {Side} side @param {number} sample @returns {number} */
export function beganAt(side, sample) {
  return Math.max(0, endedAt(side, sample) - side.sample_lasted[sample]);
}

/** @param {string} base64 @returns {Promise<ArrayBuffer>} */
export async function unpack(base64) {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  return unzip(packed.buffer);
}

/** @param {ArrayBuffer} packed gzip @returns {Promise<ArrayBuffer>} */
export async function unzip(packed) {
  const gzip = new DecompressionStream("gzip"), writer = gzip.writable.getWriter(), reader = gzip.readable.getReader();
  // What is wrong with the stream is said where it is read.
  writer.write(new Uint8Array(packed)).catch(() => {});
  writer.close().catch(() => {});
  // A gzip stream ends with its length before it was packed.
  const all = new Uint8Array(new DataView(packed).getUint32(packed.byteLength - 4, true));
  let at = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    all.set(next.value, at);
    at += next.value.length;
  }
  return all.buffer;
}

/** Reads the code of functions that a server sent. @param {ArrayBuffer} buffer @returns {Listing[]} */
export function openCode(buffer) {
  const { document, columns } = split(buffer);
  return readCode(document, columns);
}

/** @param {ArrayBuffer} buffer @returns {{document: any, columns: Columns}} */
function split(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const document = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return { document, columns: new Columns(buffer, 4 + length) };
}

/** @param {any} code @param {Columns} columns @returns {Listing[]} */
function readCode(code, columns) {
  for (const part of code?.parts ?? []) if (part.hits) part.hits = { sample: columns.read(part.hits.sample), at: columns.read(part.hits.at) };
  return (code?.functions ?? []).map((/** @type {any} */ it) => ({ ...it, parts: it.parts.map((/** @type {number} */ part) => code.parts[part]) }));
}

/** @param {ArrayBuffer} buffer @returns {Page} */
export function open(buffer) {
  const { document: page, columns } = split(buffer);
  page.functions = [];
  /** Shorter forms of long names, the longest first. */
  page.forms = new Map();
  const known = new Map(), renamed = renames(page.diff);
  // The last recording gives the names: a function that was renamed is called there what it is called now.
  for (let index = page.sides.length - 1; index >= 0; index--) {
    page.sides[index].index = index;
    readSide(page.sides[index], columns, page, known, index === 0 ? renamed : new Map(), page.sides.length === 1);
    // An object of which properties were deleted takes long to read; its copy does not.
    page.sides[index] = { ...page.sides[index] };
  }
  renameProcess(page);
  for (const thread of page.sides.flatMap((/** @type {Side} */ side) => side.threads)) addKeys(thread, page.sides.length > 1);
  return withOrders(page);
}

/** @param {Thread} thread @param {boolean} byName filters name processes and threads, not their numbers */
export function addKeys(thread, byName) {
  const host = thread.host === null ? "" : `${thread.host}:`;
  thread.processKey = byName ? thread.process : `${host}${thread.tgid}`;
  thread.key = `${thread.processKey}/${byName ? thread.comm : thread.tid}`;
}

/**
 * A process with nine tenths of the samples of its recording, of which the other recording has none, is taken for one that was
 * renamed, if both recordings have such a one. The head of the page says so.
 * @param {any} page
 */
function renameProcess(page) {
  if (page.sides.length < 2) return;
  const [before, after] = page.sides.map(mainProcess);
  const has = (/** @type {Side} */ side, /** @type {string} */ name) => side.threads.some((it) => it.process === name);
  if (!before || !after || has(page.sides[1], before) || has(page.sides[0], after)) return;
  page.renamed = `taken for one process: ${before} before, ${after} after`;
  for (const thread of page.sides[0].threads) if (thread.process === before) thread.process = after;
}

/** Names the process with nine tenths of the samples. @param {Side} side @returns {string | undefined} */
function mainProcess(side) {
  /** @type {Map<string, number>} */
  const samples = new Map();
  side.threads.forEach(({ process }, i) => samples.set(process, (samples.get(process) ?? 0) + side.thread_begin[i + 1] - side.thread_begin[i]));
  return [...samples].find(([, number]) => number > 0.9 * side.sample_time.length)?.[0];
}

/** What stands for a function in both recordings. @param {string} name @param {string} image @returns {string} */
export function functionKey(name, image) {
  return `${name}\0${image.slice(image.lastIndexOf("/") + 1)}`;
}

/** Functions that the comparison found under other names, by what they were called before. @param {any} diff @returns {Map<string, string>} */
function renames(diff) {
  const renamed = new Map();
  for (const row of diff?.rows ?? []) {
    if (row.before_name === undefined && row.before_image === undefined) continue;
    renamed.set(functionKey(row.before_name ?? row.name, row.before_image ?? row.image ?? ""), functionKey(row.name, row.image ?? ""));
  }
  return renamed;
}

/** @param {any} page @returns {Page} */
function withOrders(page) {
  const { functions } = page;
  const order = new Uint32Array(functions.length);
  let isOrdered = true;
  for (let i = 0; i < order.length; i++) {
    order[i] = i;
    if (i && functions[i].name < functions[i - 1].name) isOrdered = false;
  }
  // The functions of one recording are in order, and sorting a million names takes a second.
  if (!isOrdered) order.sort((a, b) => functions[a].name < functions[b].name ? -1 : functions[a].name > functions[b].name ? 1 : a - b);
  page.byName = new Uint32Array(functions.length);
  for (let rank = 0; rank < order.length; rank++) page.byName[order[rank]] = rank;
  const images = new Set();
  for (const it of functions) images.add(it.image);
  page.images = [...images].sort();
  const positions = new Map(page.images.map((/** @type {string} */ image, /** @type {number} */ i) => [image, i]));
  page.imageOf = new Uint32Array(functions.length);
  for (let i = 0; i < functions.length; i++) page.imageOf[i] = positions.get(functions[i].image) ?? 0;
  return page;
}

/**
 * @param {any} side
 * @param {Columns} columns
 * @param {Pick<Page, "functions" | "forms">} page of all recordings; the functions of this one are added
 * @param {Map<string, number>} known
 * @param {Map<string, string>} renamed
 * @param {boolean} isAlone there is no other recording
 */
function readSide(side, columns, { functions, forms }, known, renamed, isAlone) {
  for (const [name, place] of Object.entries(side.columns)) side[name] = columns.read(/** @type {any} */ (place));
  delete side.columns;
  const samples = side.sample_time.length;
  side.sample_cpu ??= new Uint32Array(samples);
  side.sample_lasted ??= new Uint32Array(samples);
  side.sample_late ??= new Uint32Array(samples);
  side.sample_number ??= new Uint32Array(samples).fill(1);
  side.sample_weight = wide(side.sample_weight ?? new Uint32Array(samples), side.sample_weight_high);
  delete side.sample_weight_high;
  readStacks(side);
  side.function_language ??= new Uint8Array(side.function_name.length);
  const { text, function_name, function_image, function_side, function_language, function_reason, function_forms } = side;
  const own = new Uint32Array(function_name.length), isTwice = repeated(function_name, text.length);
  for (let i = 0; i < own.length; i++) {
    const name = function_name[i], at = function_image[i], why = function_reason[i];
    const made = { name: text[name], image: at ? text[at - 1] : "", side: function_side[i], language: function_language[i], reason: why ? text[why - 1] : "" };
    // To make keys of a million functions takes a second, and only functions of one name can be alike.
    if (isAlone && !isTwice[name]) {
      own[i] = functions.push(made) - 1;
      continue;
    }
    const plain = functionKey(made.name, made.image), key = `${renamed.get(plain) ?? plain}\0${made.side}`;
    let position = known.get(key);
    if (position === undefined) {
      position = functions.push(made) - 1;
      known.set(key, position);
    }
    own[i] = position;
  }
  side.labels = own;
  const each = function_forms ? function_forms.length / own.length : 0;
  for (let i = 0; i < own.length; i++) {
    const of = each ? Array.from(function_forms.subarray(i * each, (i + 1) * each)).filter(Boolean) : [];
    if (of.length) forms.set(text[function_name[i]], of.map((at) => text[at - 1]));
  }
  delete side.function_forms;
  side.listings = new Map(readCode(side.code, columns).map((listing) => [own[listing.function], listing]));
  delete side.code;
  const { frame_function, stack_frame, row_stack, sample_row, thread_begin } = side;
  for (let i = 0; i < frame_function.length; i++) frame_function[i] = own[frame_function[i]];
  const stack_function = new Uint32Array(stack_frame.length), row_thread = new Uint32Array(row_stack.length);
  for (let i = 0; i < stack_frame.length; i++) stack_function[i] = frame_function[stack_frame[i]];
  for (let thread = 0; thread < side.threads.length; thread++) {
    for (let i = thread_begin[thread]; i < thread_begin[thread + 1]; i++) row_thread[sample_row[i]] = thread;
  }
  Object.assign(side, { stack_function, row_thread });
}

/** Finds the texts that are there more than once. @param {Uint32Array} texts positions @param {number} length @returns {Uint8Array} 1 for each of them */
function repeated(texts, length) {
  const isOnce = new Uint8Array(length), isTwice = new Uint8Array(length);
  for (let i = 0; i < texts.length; i++) {
    isTwice[texts[i]] = isOnce[texts[i]];
    isOnce[texts[i]] = 1;
  }
  return isTwice;
}

/** Rebuilds the callers of stacks, which come in the order of a walk through the trie. @param {any} side */
function readStacks(side) {
  const { stack_leaves: leaves, stack_frame: frames } = side;
  const up = new Uint32Array(leaves.length + 1), frame = new Uint32Array(leaves.length + 1);
  let before = 0;
  for (let i = 0; i < leaves.length; i++) {
    for (let n = leaves[i]; n > 0; n--) before = up[before];
    up[i + 1] = before;
    frame[i + 1] = frames[i];
    before = i + 1;
  }
  side.up = up;
  side.stack_frame = frame;
  delete side.stack_leaves;
}

/** @param {Uint32Array} low @param {Uint32Array | undefined} high @returns {Float64Array} */
function wide(low, high) {
  const all = new Float64Array(low);
  if (high) for (let i = 0; i < all.length; i++) all[i] += high[i] * 2 ** 32;
  return all;
}

/** Reads columns. */
class Columns {
  /** @param {ArrayBuffer} buffer @param {number} begin where the first column lies */
  constructor(buffer, begin) {
    this.bytes = new Uint8Array(buffer, begin);
  }

  /** @param {[string, number, number]} place encoding, offset, number of values @returns {Uint8Array | Uint32Array | string[]} */
  read([encoding, off, count]) {
    if (encoding === "u8") return this.bytes.slice(off, off + count);
    const numbers = this.planes(off, count);
    if (encoding === "steps") {
      for (let i = 1; i < count; i++) numbers[i] += numbers[i - 1];
    }
    return encoding === "text" ? this.texts(off + 4 * count, numbers) : numbers;
  }

  /** @param {number} off @param {number} count @returns {Uint32Array} */
  planes(off, count) {
    const [a, b, c, d] = [0, 1, 2, 3].map((plane) => this.bytes.subarray(off + plane * count, off + (plane + 1) * count));
    const numbers = new Uint32Array(count);
    for (let i = 0; i < count; i++) numbers[i] = a[i] | b[i] << 8 | c[i] << 16 | d[i] << 24;
    return numbers;
  }

  /** @param {number} off @param {Uint32Array} lengths @returns {string[]} */
  texts(off, lengths) {
    const decoder = new TextDecoder(), texts = new Array(lengths.length);
    let behind = off;
    for (let i = 0; i < lengths.length; i++) behind += lengths[i];
    // A decoder takes longer to be called than to decode a name. In this encoding each byte is one character.
    const { bytes } = this, all = new TextDecoder("latin1").decode(bytes.subarray(off, behind));
    for (let i = 0, at = off; i < texts.length; i++) {
      const end = at + lengths[i];
      let high = 0;
      for (let byte = at; byte < end; byte++) high |= bytes[byte];
      texts[i] = high < 128 ? all.slice(at - off, end - off) : decoder.decode(bytes.subarray(at, end));
      at = end;
    }
    return texts;
  }
}
