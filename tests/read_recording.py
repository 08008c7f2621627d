#!/usr/bin/env python3
"""Reads a recording and prints its blocks and samples as one JSON document.

Written from docs/FORMAT.md alone, to prove that this is enough; the comments name its sections. It shares no
line with the Rust reader, and tests/tests/kernel/python_reader compares what the two say. It needs the package
`zstandard` (Debian: python3-zstandard).

usage: read_recording.py FILE [--scan]      --scan: as if there were no index
"""

import itertools
import json
import struct
import sys
import zlib

import zstandard

KINDS = ["session", "strings", "tasks", "lifecycle", "images", "mappings", "stacks", "samples"]
KINDS += ["kernel_symbols", "losses", "receipt", "index", "symbols"]
KINDS += ["image_parts", "jit", "cgroups", "names", "left_out", "stack_code", "stack_pieces", "stack_nodes", "snapshots"]
KINDS += ["unwind_rules", "stack_marks", "cpu_times", "waits", "counters", "sources", "code", "fields", "trigger", "rates"]
KINDS = dict(enumerate(KINDS, 1))
ROOT_BYTES = [184, 24, 40, 88, 96, 120, 64, 192, 48, 72, 136, 0, 124, 48, 208, 64, 248, 48, 28, 40, 40, 88, 68, 24, 104, 144, 80, 80, 220, 104, 32, 60]
ROOT_BYTES = dict(enumerate(ROOT_BYTES, 1))
ENDS = ["none", "root", "depth", "unreadable", "not_monotonic", "misaligned", "zero_return", "unsaid", "not_code",
        "mappings_lost", "by_tables"]
SESSION, RECEIPT, INDEX = 1, 11, 12
OPEN = 1
U64 = (1 << 64) - 1


class Damage(Exception):
    """What makes a header, a block or an index unusable."""


def need(holds, cause):
    if not holds:
        raise Damage(cause)


def up8(offset):
    return (offset + 7) // 8 * 8


# -- the envelope: sections 1 to 4 and 6


class Block:
    """A block header (section 3), or a row of the index (section 4)."""

    def __init__(self, off, kind, version, codec, items, sequence, first, last, stored, raw, crc, processes):
        self.off, self.kind, self.version, self.codec, self.items = off, kind, version, codec, items
        self.sequence, self.first_ns, self.last_ns = sequence, first, last
        self.stored_len, self.raw_len, self.crc, self.processes = stored, raw, crc, processes
        self.end = off + 64 + stored

    def info(self):
        name = KINDS.get(self.kind, f"kind_{self.kind}")
        return {
            "kind": name, "version": self.version, "codec": ["raw", "zstd"][self.codec], "offset": self.off,
            "stored_len": self.stored_len, "raw_len": self.raw_len, "count": self.items,
            "first_ns": self.first_ns, "last_ns": self.last_ns,
        }


class Recording:
    """The blocks of a file, in the order of writing."""

    def __init__(self, data, scan=False):
        self.data, self.said = data, []
        self.mark = self.header()
        self.seed = zlib.crc32(data[32:48])
        tail, fits, self.rows = None, False, []
        try:
            tail = self.tail(len(data) - 32)
            self.rows = self.index(tail)
            for row in self.rows:
                need(vars(self.block(row.off)) == vars(row), f"index and block at {row.off}")
            fits = True
        except Damage as damage:
            self.said.append(str(damage))
        self.closed = tail is not None and self.mark != OPEN
        self.blocks = self.rows if fits and not scan else self.scan(tail)

    def header(self):
        data = self.data
        need(data[:8] == b"ICECOR\r\n" and len(data) >= 64, "no recording")
        version, mark, incompatible = struct.unpack_from("<IIQ", data, 8)
        need(version == 1, "newer envelope")
        need(zlib.crc32(data[:60]) == struct.unpack_from("<I", data, 60)[0], "checksum of the file header")
        need(incompatible == 0, "unknown incompatible features")
        need(mark in (1, 2, 3), "unknown mark")
        return mark

    def block(self, off):
        """The header at an offset; damage if none is whole there."""
        head = self.data[off : off + 64]
        need(len(head) == 64 and head[:4] == b"ICBK", f"no block at {off}")
        need(zlib.crc32(head[:60], self.seed) == struct.unpack_from("<I", head, 60)[0], f"block header at {off}")
        kind, version, codec, items = struct.unpack_from("<HHB3xI", head, 4)
        sequence, first, last, stored, raw, crc, processes = struct.unpack_from("<QQQIIIQ", head, 16)
        limits = (1 << 30, 1 << 30) if kind == INDEX else (64 << 20, 256 << 20)
        need(codec in (0, 1) and stored <= limits[0] and raw <= limits[1], f"limits of the block at {off}")
        need(codec != 0 or stored == raw, f"lengths of the block at {off}")
        need(raw <= 1 << 20 or raw <= 4096 * stored, f"raw length of the block at {off}")
        return Block(off, kind, version, codec, items, sequence, first, last, stored, raw, crc, processes)

    def is_whole(self, block):
        stored = self.data[block.off + 64 : block.end]
        return len(stored) == block.stored_len and zlib.crc32(stored) == block.crc

    def payload(self, block):
        need(self.is_whole(block), f"payload of the block at {block.off}")
        stored = self.data[block.off + 64 : block.end]
        if block.codec == 0:
            return stored
        try:
            raw = zstandard.ZstdDecompressor().decompress(stored, max_output_size=max(block.raw_len, 1))
        except zstandard.ZstdError as error:
            raise Damage(f"block at {block.off}: {error}") from error
        need(len(raw) == block.raw_len, f"raw length of the block at {block.off}")
        return raw

    def tail(self, off):
        """(offset of the index, rows, end of the blocks)"""
        tail = self.data[off : off + 32] if off >= 64 else b""
        need(len(tail) == 32 and tail[24:] == b"\r\nICETIP", "no tail")
        index_off, length, rows, crc = struct.unpack_from("<QQII", tail)
        need(zlib.crc32(tail[:20], self.seed) == crc, "checksum of the tail")
        need(length == off + 32, "length in the tail")
        return index_off, rows, off

    def index(self, tail):
        index_off, count, end = tail
        head = self.block(index_off)
        need((head.kind, head.version) == (INDEX, 1), "no index")
        need(up8(head.end) == end and head.items == count, "index and tail")
        need(head.raw_len == 64 * count, "length of the index")
        need(count <= (index_off - 64) // 64 and count <= 1 << 24, "rows of the index")
        planes, rows, free = self.payload(head), [], 64
        for number in range(count):
            row = bytes(planes[plane * count + number] for plane in range(64))
            off, kind, version, codec, items, stored, raw, crc, first, last, sequence, processes = struct.unpack(
                "<QHHB3xIIIIQQQQ", row
            )
            block = Block(off, kind, version, codec, items, sequence, first, last, stored, raw, crc, processes)
            need(sequence == number, "sequence in the index")
            need(off >= free and off % 8 == 0 and block.end <= index_off, "offsets in the index")
            rows.append(block)
            free = up8(block.end)
        return rows

    def scan(self, tail):
        """Section 6: the whole blocks that can be found."""
        end = tail[2] if tail else len(self.data)
        off, found = 64, []
        while off < end:
            try:
                block = self.block(off)
            except Damage as damage:
                self.said.append(str(damage))
                off = self.magic(off + 8, end)
                continue
            if self.is_whole(block):
                found.append(block)
                off = up8(block.end)
                if block.kind == INDEX and self.ends_at(off):
                    self.closed = self.mark != OPEN
                    break
            else:
                self.said.append(f"payload of the block at {block.off}")
                off = up8(block.end) if self.follows(up8(block.end), end) else self.magic(off + 64, end)
        blocks = {}
        for block in sorted(found, key=lambda block: (block.sequence, block.off)):
            blocks.setdefault(block.sequence, block)
        return [block for block in blocks.values() if block.kind != INDEX]

    def ends_at(self, off):
        try:
            self.tail(off)
            return True
        except Damage:
            return False

    def follows(self, off, end):
        try:
            return off == end or (off < end and self.block(off) is not None)
        except Damage:
            return False

    def magic(self, off, end):
        while off < end and self.data[off : off + 4] != b"ICBK":
            off += 8
        return off


# -- payloads: section 5


def unfold(row):
    return row >> 1 if row & 1 == 0 else -(row >> 1) - 1


class Root:
    """The root struct of a payload; fields are read by their offset."""

    def __init__(self, block, raw):
        self.raw, self.items, self.processes = raw, block.items, block.processes
        self.base = len(raw) - ROOT_BYTES[block.kind]
        need(self.base >= 0, f"root of the block at {block.off}")

    def u16(self, at):
        return struct.unpack_from("<H", self.raw, self.base + at)[0]

    def u32(self, at):
        return struct.unpack_from("<I", self.raw, self.base + at)[0]

    def u64(self, at):
        return struct.unpack_from("<Q", self.raw, self.base + at)[0]

    def list(self, at):
        """(offset in the payload, items)"""
        pointer, length = struct.unpack_from("<iI", self.raw, self.base + at)
        return self.base + at + pointer, length

    def bytes(self, at):
        begin, length = self.list(at)
        need(length == 0 or 0 <= begin <= begin + length <= len(self.raw), "list outside of the payload")
        return self.raw[begin : begin + length]

    def numbers(self, at, kind):
        begin, length = self.list(at)
        return list(struct.unpack_from(f"<{length}{kind}", self.raw, begin)) if length else []

    def texts(self, at):
        begin, length = self.list(at)
        return [self.text(begin + 8 * number) for number in range(length)]

    def arena(self, at, lens):
        """The texts of an arena, cut by their lengths."""
        bytes, texts, begin = self.bytes(at), [], 0
        for length in self.values(lens, False):
            need(begin + length <= len(bytes), "bytes of texts")
            texts.append(bytes[begin : begin + length].decode("utf-8", "replace"))
            begin += length
        return texts

    def option(self, at):
        return self.u64(at + 8) if self.raw[self.base + at] else None

    def text(self, at):
        """A text at an offset in the payload."""
        head = self.raw[at : at + 8]
        if head[0] & 0xC0 != 0x80:
            return head.split(b"\xff")[0].decode("utf-8", "replace")
        value, pointer = struct.unpack("<Ii", head)
        length = (value & 0x3F) + (value >> 8 << 6)
        return self.raw[at + pointer : at + pointer + length].decode("utf-8", "replace")

    def values(self, at, rows=True):
        count, planes = self.u32(at), self.bytes(at + 4)
        need(not rows or count == self.items, "rows of a column")
        width = len(planes) // count if count else 0
        need(width * count == len(planes) and width <= 8 and (width > 0) == (count > 0), "planes of a column")
        values = [0] * count
        for k in range(width):
            plane = planes[k * count : (k + 1) * count]
            values = [value | byte << 8 * k for value, byte in zip(values, plane)]
        return values

    def folded(self, at, rows=True):
        return [unfold(row) for row in self.values(at, rows)]

    def steps(self, at, rows=True):
        values, value = [], 0
        for difference in self.folded(at, rows):
            value = (value + difference) & U64
            values.append(value)
        return values

    def times(self):
        """Of lifecycle, mappings and cgroups."""
        times, time = [], self.u64(0)
        for after in self.values(16):
            time += after
            times.append(time)
        return times


def told_words(root, at, distances_at):
    """Section 5.19: ("code", id) or ("stack", distance)."""
    distances = iter(root.values(distances_at, False))
    for row in root.values(at, False):
        yield ("code", row - 1) if row else ("stack", unfold(next(distances)))


class Part:
    """One session and what is told behind it."""

    def __init__(self):
        self.start_ns, self.start_unix_ns, self.events = 0, 0, []
        self.settings, self.end, self.host, self.boot_id, self.end_ns = None, None, "", "", None
        self.strings, self.tasks, self.images, self.nodes = {0: ""}, {}, {}, {}
        self.changes, self.mappings, self.samples, self.has_receipt = [], [], [], False
        self.triggers, self.rates = [], []
        self.symbols, self.image_parts, self.jit, self.cgroups, self.names = [], [], [], [], []
        self.sources, self.code = [], []
        self.left_out, self.mount_ns = [], 0
        self.stack_code, self.stack_pieces, self.stack_nodes, self.snapshots = {}, {}, {}, {}
        self.unwind_rules, self.cpu_times, self.marks, self.waits, self.fields = [], [], {}, [], []
        self.counters = []

    def session(self, root):
        self.start_ns, self.start_unix_ns, self.mount_ns = root.u64(64), root.u64(72), root.u64(80)
        self.host, self.boot_id = root.text(root.base + 16), root.text(root.base + 48)
        at, count = root.list(104)
        self.events = [root.text(at + 40 * event) for event in range(count)]
        self.settings = {
            "maker": root.u16(164), "target": root.u16(166), "target_ids": root.numbers(128, "I"),
            "target_cgroups": root.texts(136), "cpu_scope": root.u16(168), "cpus": root.numbers(96, "I"),
            "unwind": root.u16(170), "max_depth": root.u32(156), "stack_bytes": root.u32(160),
            "embed": root.u16(172), "missing_features": root.numbers(144, "H"),
            "meanings": [struct.unpack_from("<H", root.raw, at + 40 * event + 32)[0] for event in range(count)],
            "sides": [root.raw[root.base + side] for side in (174, 175, 176)],
        }

    def receipt(self, root):
        self.end_ns = root.u64(0)
        self.end = {
            "end_reason": root.u16(132), "cut_from_ns": root.option(80), "cut_to_ns": root.option(96),
            "kept_samples": root.option(112),
        }

    def trigger_block(self, root):
        what = root.text(root.base + 16)
        self.triggers.append([root.u64(0), root.u64(8), what, root.u16(24), bool(root.raw[root.base + 26])])

    def rates_block(self, root):
        rows = zip(root.steps(0), *[root.values(at) for at in (12, 24, 36, 48)])
        self.rates.extend(list(row) for row in rows)

    def strings_block(self, root):
        first, arena, at = root.u32(0), root.bytes(4), 0
        for number, length in enumerate(root.values(12)):
            need(at + length <= len(arena), "bytes of strings")
            self.strings[first + number] = arena[at : at + length].decode("utf-8", "replace")
            at += length

    def tasks_block(self, root):
        first = root.u32(0)
        for number, (tgid, tid, comm) in enumerate(zip(root.steps(4), root.folded(16), root.values(28))):
            self.tasks[first + number] = (tgid, tgid - tid, comm)

    def lifecycle(self, root):
        rows = zip(root.times(), root.values(28), root.steps(40), root.folded(52), root.values(64))
        for time, change, tgid, tid, creator in rows:
            parent = None if creator == 0 else tgid - unfold(creator - 1)
            self.changes.append((time, change, tgid, tgid - tid, parent))

    def images_block(self, root):
        first = root.u32(0)
        for number, path in enumerate(root.values(16)):
            self.images[first + number] = path

    def mappings_block(self, root):
        starts = {}
        columns = [root.values(at) for at in (52, 64, 76, 88, 100)]
        rows = zip(root.times(), root.steps(28), root.folded(40), *columns)
        for time, tgid, start, length, file_off, image, origin, mount in rows:
            starts[tgid] = (starts.get(tgid, 0) + start) & U64
            mount = (root.u64(112) + unfold(mount - 1)) & U64 if mount else 0
            self.mappings.append((time, tgid, starts[tgid], length, file_off, image, origin, mount))

    def stacks(self, root):
        base, first = root.u64(0), root.u32(8)
        offsets, kernel_offsets = iter(root.values(36, False)), iter(root.values(48, False))
        for id, parent, kind in zip(range(first, first + root.items), root.values(12), root.values(24)):
            parent = 0 if parent == 0 else id - 1 if parent == 1 else parent - 1
            need(id < 1 << 32 and parent < id, "a caller behind its callee")
            if kind == 1:
                self.nodes[id] = (parent, None, (base + next(kernel_offsets)) & U64)
            else:
                self.nodes[id] = (parent, kind - 2 if kind else None, next(offsets))

    def samples_block(self, root):
        first, period, unit, newest = root.u64(0), root.u64(24), root.u32(32), root.u32(36)
        need(unit > 0, "unit of times")
        late, task_rows, weight = root.folded(40), root.values(100), root.steps(160)
        cpu, event = root.values(52), root.values(64)
        # Kernel before user: new, known, end.
        sides = [
            (root.values(136), iter(root.values(148, False)), root.values(88), [0, 0]),
            (root.values(112), iter(root.values(124, False)), root.values(76), [0, 0]),
        ]
        snapshot_rows, next_snapshot, expected, recent = root.values(172), root.u32(184), {}, {}
        for i in range(root.items):
            units = expected.get(cpu[i], first // unit) + late[i]
            expected[cpu[i]] = units + period
            tasks = recent.setdefault(cpu[i], [])
            task = tasks.pop(task_rows[i] // 2) if task_rows[i] & 1 else task_rows[i] // 2
            tasks.insert(0, task)
            del tasks[64:]
            told = []
            for new, known, ends, last in sides:
                if new[i]:
                    newest += new[i]
                    stack = newest
                else:
                    stack = next(known)
                if ends[i]:
                    last[stack != 0] = (ends[i] - 1) & 0xFF
                told.append((stack, last[stack != 0]))
            snapshot = next_snapshot + unfold(snapshot_rows[i] - 1) if snapshot_rows[i] else 0
            next_snapshot = snapshot + 1 if snapshot else next_snapshot
            self.samples.append((units * unit & U64, cpu[i], event[i], task, weight[i], *told, snapshot))


    def symbols_block(self, root):
        names, files = root.arena(72, 80), root.arena(104, 112)
        left = iter(names)
        rows = zip(*(root.steps(at) for at in (0, 12, 36)), *(root.values(at) for at in (24, 48, 60, 92)))
        for image, start, bias, length, whole, count, file in rows:
            own = [next(left) for _ in range(count)]
            address = (start + bias) & U64
            file = files[file - 1] if file else ""
            self.symbols.append([image, start, start + length, address, (address + whole) & U64, own, file])
        need(next(left, None) is None, "functions for all names")

    def jit_block(self, root):
        names, at, tables, table_at = root.bytes(60), 0, root.bytes(80), 0
        columns = [root.steps(0), root.steps(12), root.values(24), root.steps(36)]
        columns += [root.values(at) for at in (48, 68, 88, 100, 148)]
        inlined = iter(zip(*(root.values(at, False) for at in (172, 184, 196)), strict=True))
        lines = iter(zip(*(root.values(at, False) for at in (112, 124, 136, 160)), strict=True))
        lines = ([*line, [list(next(inlined)) for _ in range(depth)]] for *line, depth in lines)
        for tgid, start, length, since, lasted, name_len, rules_len, line_count, language in zip(*columns):
            need(at + name_len <= len(names) and table_at + rules_len <= len(tables), "bytes of names and tables")
            name = names[at : at + name_len].decode("utf-8", "replace")
            rules = tables[table_at : table_at + rules_len].hex()
            here = [next(lines) for _ in range(line_count)]
            need(all(a[0] < b[0] for a, b in zip(here, here[1:])), "lines that ascend")
            until = since + lasted if lasted else 0
            self.jit.append([tgid, start, start + length, since, until, name, rules, here, language])
            at += name_len
            table_at += rules_len
        need(next(lines, None) is None, "rows for all lines")
        need(next(inlined, None) is None, "lines for all inlined functions")

    def image_parts_block(self, root):
        file_bytes, image, arena, free = root.u64(0), root.u32(8), root.bytes(36), 0
        need(root.processes == 1 << ((image * 0x9E3779B1 & 0xFFFFFFFF) >> 26), "the image in the header")
        pieces, at = [], 0
        for off, length in zip(root.steps(12), root.values(24)):
            need(free <= off and off + length <= file_bytes, "a piece outside of its file")
            need(at + length <= len(arena) <= 1 << 20, "bytes of pieces")
            pieces.append([off, length, zlib.crc32(arena[at : at + length])])
            at, free = at + length, off + length
        self.image_parts.append([image, file_bytes, pieces])

    def cgroups_block(self, root):
        for time, tgid, tid, path in zip(root.times(), root.steps(28), root.folded(40), root.values(52)):
            self.cgroups.append((time, tgid, tgid - tid, path))

    def cpu_times_block(self, root):
        time, unit = root.u64(0), root.u32(16)
        columns = zip(root.values(20), root.values(32), root.steps(44), root.folded(56), *map(root.values, (68, 80, 92)))
        for after, over, tgid, tid, *ran in columns:
            time += after * unit
            self.cpu_times.append([time, time - over * unit, tgid, tgid - tid, *(part * unit for part in ran)])

    def waits_block(self, root):
        time, unit = root.u64(0), root.u32(16)
        columns = [root.values(at) for at in (20, 32, 44, 56, 68, 80)]
        columns += [root.folded(92)] + [root.values(at) for at in (104, 116, 128)]
        for after, task, event, state, flags, woken_by, ended, lasted, waker_task, waker in zip(*columns):
            time += after * unit
            end = time - ended * unit
            waker = end - unfold(waker - 1) * unit if waker else 0
            waker_task = waker_task - 1 if waker_task else None
            self.waits.append([time, task, event, state, flags, woken_by, end - lasted * unit, end, waker_task, waker])

    def fields_block(self, root):
        time, unit = root.u64(0), root.u32(16)
        for after, task, event, name, kind, number, text in zip(*[root.values(at) for at in (20, 32, 44, 56, 68, 80, 92)]):
            time += after * unit
            number = unfold(number) if kind == 1 else number
            self.fields.append([time, task, event, name, kind, number, text])

    def counters_block(self, root):
        time, unit, known = root.u64(0), root.u32(16), {}
        columns = zip(root.values(20), root.values(32), root.steps(44), root.steps(56), root.folded(68))
        for after, owner, id, counter, value in columns:
            time += after * unit
            id = 0 if owner == 0 else id
            key = (owner, id, counter)
            known[key] = (known.get(key, 0) + value) & U64
            self.counters.append([time, owner, id, counter, known[key]])

    def left_out_block(self, root):
        rows = zip(root.steps(0), root.values(12), root.values(24), root.values(36))
        self.left_out.extend(list(row) for row in rows)

    def stack_code_block(self, root):
        for id, base, offset in zip(range(root.u32(0), U64), root.values(4), root.values(16)):
            self.stack_code[id] = (base - 1 if base else None, offset)

    def stack_pieces_block(self, root):
        words = told_words(root, 16, 28)
        for id, mask in zip(range(root.u32(0), U64), root.values(4)):
            self.stack_pieces[id] = (mask, [next(words) for _ in range(mask.bit_count())])

    def stack_nodes_block(self, root):
        rows = zip(range(root.u32(0), U64), root.values(4), root.values(16), root.values(28))
        for id, outer, gap, piece in rows:
            outer = 0 if outer == 0 else id - 1 if outer == 1 else outer - 1
            need(id < 1 << 32 and outer < id, "an outer node behind its inner one")
            self.stack_nodes[id] = (outer, gap, piece)

    def snapshots_block(self, root):
        words = told_words(root, 64, 76)
        columns = [root.values(at) for at in (4, 16, 28)] + [root.steps(40), root.values(52)]
        for id, anchor, depth, not_copied, memory, mask in zip(range(root.u32(0), U64), *columns):
            registers = {number: next(words) for number in range(64) if mask >> number & 1}
            self.snapshots[id] = (anchor, depth, not_copied, memory, registers)

    def unwind_rules_block(self, root):
        at = 0
        columns = [root.steps(off) for off in (0, 12, 24, 36)] + [root.values(56, False)]
        for image, address, start, bias, length in zip(*columns, strict=True):
            need(at + length <= len(root.bytes(48)), "bytes of entries")
            self.unwind_rules.append([image, address, start, bias, root.bytes(48)[at : at + length].hex()])
            at += length

    def stack_marks_block(self, root):
        self.marks.update(zip(root.steps(0), root.values(12)))

    def names_block(self, root):
        texts = root.arena(228, 236)
        columns = [root.values(at, False) for at in (108, 120, 132, 144, 156, 168, 180, 192, 204)]
        aliases, functions = iter(root.values(216, False)), []
        text = lambda at: texts[at - 1] if at else None
        for name, symbol, file, line, unit, entry, first, symbol_file, count in zip(*columns, strict=True):
            others = [texts[next(aliases)] for _ in range(count)]
            entry = [unit - 1, entry] if unit else None
            function = [texts[name], text(symbol), text(file), line, entry, first, text(symbol_file), others]
            functions.append(function)
        need(next(aliases, None) is None, "functions for all aliases")
        frames = iter(zip(*(root.values(at, False) for at in (72, 84, 96)), strict=True))
        rows = zip(root.steps(0), root.steps(12), root.steps(24), root.values(36), root.values(48), root.values(60))
        for image, file_off, address, back, depth, calls in rows:
            here = [next(frames) for _ in range(depth)]
            here = [[functions[function], text(file), line] for function, file, line in here]
            start = max(address - (back - 1), 0) if back else 0
            self.names.append([image, file_off, address, start, here, text(calls)])
        need(next(frames, None) is None, "rows for all frames")

    def sources_block(self, root):
        texts = root.arena(60, 68)
        need(all(length <= 16 << 20 for length in root.values(68, False)), "texts of at most 16 MiB")
        rows = zip(root.steps(0), root.values(12), root.values(24), root.values(36), root.steps(48))
        for image, path, text, proof, modified in rows:
            self.sources.append([image, texts[path], texts[text], proof, modified])

    def code_block(self, root):
        texts, code = root.arena(200, 208), root.bytes(96)
        text = lambda at: texts[at - 1] if at else None
        frames = zip(root.values(128, False), root.values(140, False), root.steps(152, False), strict=True)
        frames = iter([[texts[function], text(file), line] for function, file, line in frames])
        places = iter(list(zip(root.values(104, False), root.values(116, False), strict=True)))
        refers = zip(root.steps(164, False), root.values(176, False), root.values(188, False), strict=True)
        refers = iter([[at, texts[name], offset] for at, name, offset in refers])
        columns = [root.steps(at) for at in (0, 12, 24)] + [root.values(at) for at in (36, 48, 60, 72, 84)]
        for image, file_off, address, machine, name, length, place_count, refer_count in zip(*columns, strict=True):
            need(length <= min(len(code), 1 << 20), "bytes of code, at most 1 MiB of a function")
            own, code, begin, here = code[:length], code[length:], 0, []
            for nth in range(place_count):
                after, depth = next(places)
                begin += after
                need(begin < length and (after or not nth), "places that ascend in their stretch")
                here.append([begin, [next(frames) for _ in range(depth)]])
            others = [next(refers) for _ in range(refer_count)]
            self.code.append([image, file_off, address, machine, text(name), own.hex(), here, others])
        need(all(next(rest, None) is None for rest in (places, frames, refers)), "stretches for all rows")


def read(recording):
    """All sessions of a recording."""
    readers = [Part.session, Part.strings_block, Part.tasks_block, Part.lifecycle, Part.images_block]
    readers += [Part.mappings_block, Part.stacks, Part.samples_block]
    later = [Part.symbols_block, Part.image_parts_block, Part.jit_block, Part.cgroups_block, Part.names_block]
    later += [Part.left_out_block, Part.stack_code_block, Part.stack_pieces_block, Part.stack_nodes_block]
    later += [Part.snapshots_block, Part.unwind_rules_block, Part.stack_marks_block, Part.cpu_times_block]
    later += [Part.waits_block, Part.counters_block, Part.sources_block, Part.code_block, Part.fields_block]
    later += [Part.trigger_block, Part.rates_block]
    readers = dict(enumerate(readers, 1)) | {RECEIPT: Part.receipt} | dict(enumerate(later, 13))
    parts, unknown = [], 0
    for block in recording.blocks:
        if block.kind not in KINDS or block.version != 1:
            unknown += 1
            continue
        # A session without its first block is told by the receipt in front of it.
        if block.kind == SESSION or not parts or parts[-1].has_receipt:
            parts.append(Part())
        parts[-1].has_receipt = block.kind == RECEIPT
        try:
            raw = recording.payload(block)
            if block.kind in readers:
                readers[block.kind](parts[-1], Root(block, raw))
        except (Damage, struct.error, IndexError, StopIteration) as error:
            recording.said.append(f"block at {block.off}: {error}")
    return parts, unknown


# -- address spaces: section 5.6


class Space:
    def __init__(self, begin, copied=None):
        self.begin, self.copied, self.ended, self.mappings = begin, copied, False, []

    def find(self, address, time):
        """The mapping that holds an address: the latest, those that the kernel reported before those found."""
        for mapping in reversed(sorted(self.mappings, key=lambda m: m[0])):
            if mapping[0] <= time and mapping[1] <= address < mapping[1] + mapping[2]:
                return mapping
        return self.copied[0].find(address, self.copied[1]) if self.copied else None


def replay(part):
    """The address spaces of each process, in the order of time."""
    spaces = {}
    events = [(time, 0 if change == 3 else 1, row) for row in part.changes for time, change in [row[:2]]]
    events += [(row[0], 2, row) for row in part.mappings]
    for time, rank, row in sorted(events, key=lambda event: event[:2]):
        if rank == 2:
            _, tgid, start, length, file_off, image, origin, _ = row
            own = spaces.setdefault(tgid, [])
            if not own or own[-1].ended:
                own.append(Space(time if own else 0))
            since = -1 if origin == 1 else time
            own[-1].mappings.append((since, start, length, file_off, image))
            continue
        _, change, tgid, tid, parent = row
        own = spaces.setdefault(tgid, [])
        if change == 1 and not own:
            own.append(Space(0))
        elif change == 2 and parent != tgid:
            of = spaces.get(parent)
            own.append(Space(time, (of[-1], time) if of else None))
        elif change == 7 and parent != tgid and own:
            # The process keeps its own beginning, and whether it has ended.
            of = spaces.setdefault(parent, [])
            if not of:
                of.append(Space(0))
            own[-1].mappings, own[-1].copied = of[-1].mappings, of[-1].copied
        elif change == 3:
            own.append(Space(time))
        elif change == 5 and tid == tgid and own:
            own[-1].ended = True
    return spaces


def cgroups(part):
    """Section 5.15: where processes were from which time on, and threads that were elsewhere (None: no more)."""
    processes, threads = {}, {}
    rows = [(time, 1, row) for row in part.cgroups for time in row[:1]]
    rows += [(row[0], 0, row) for row in part.changes if row[1] == 2 and row[2] != row[4]]
    for time, rank, row in sorted(rows, key=lambda row: row[:2]):
        if rank == 0:
            process, path = row[2], processes.get(row[4], [(0, 0)])[-1][1]
        else:
            _, process, thread, path = row
            if thread != process:
                threads.setdefault((process, thread), []).append((time, path))
                continue
        for (of, _), own in threads.items():
            if of == process:
                own.append((time, None))
        begin = 0 if rank and process not in processes else time
        processes.setdefault(process, []).append((begin, path))
    return processes, threads


def cgroup_at(part, places, process, thread, time):
    """The path of a thread's cgroup; None if nobody tells."""
    found = [place[1] for place in places[1].get((process, thread), []) if place[0] <= time][-1:]
    if not found or found[0] is None:
        found = [place[1] for place in places[0].get(process, []) if place[0] <= time][-1:]
    return part.strings.get(found[0]) if found and found[0] else None


def frames(part, space, time, stack, is_user):
    out, is_run = [], False
    while stack:
        if stack not in part.nodes:
            return out + [{"lost": True}]
        mark = part.marks.get(stack, 0)
        if is_user and part.nodes[stack][1] is None and part.nodes[stack][2] >> 62 == 1:
            # A function that an interpreter runs; the machine frame that runs it is the next one that is none.
            stack, _, value = part.nodes[stack]
            out.append({"address": value & ~(1 << 62)})
            is_run = True
            continue
        if is_run:
            is_run = False
            stack = part.nodes[stack][0]
            continue
        # The leaf and what was interrupted is where the CPU was, a caller is looked up one byte earlier.
        lookup = 0 if mark & 1 or not out else 1
        stack, image, value = part.nodes[stack]
        frame, mapping = {}, None
        if image is not None:
            frame["offset"] = value
        else:
            frame["address"] = value
            mapping = space.find(value - lookup, time) if is_user and space else None
        if mapping:
            image = mapping[4]
            frame["offset"] = (value - mapping[1] + mapping[3]) & U64
        if image in part.images:
            frame["image"] = part.strings.get(part.images[image], "?")
        elif image is not None:
            frame = {"lost": True}
        out.append(frame)
    return out


def held(part, id):
    """Section 5.21: what a snapshot tells of registers, by number, and of the stack, by address."""
    anchor, depth, not_copied, node, registers = part.snapshots[id]

    def value(word, at):
        return at + word[1] & U64 if word[0] == "stack" else list(part.stack_code[word[1]])

    chain = []
    while node:
        node, gap, piece = part.stack_nodes[node]
        chain.append((gap, piece))
    words, number = [], -1
    for gap, piece in reversed(chain):
        number += 1 + gap
        low = anchor - 512 * (number + 1)
        mask, told = part.stack_pieces[piece]
        places = [low + 8 * n for n in range(64) if mask >> n & 1]
        words = [[at, value(word, at)] for at, word in zip(places, told)] + words
    sp = anchor - depth
    return [sp, anchor - not_copied, [[n, value(word, sp)] for n, word in registers.items()], words]


def starts(parts):
    """The start of each part on the clock that all of them share: FORMAT, "Sessions"."""
    start = {id(part): part.start_unix_ns for part in parts}
    boots = {}
    for part in parts:
        if part.host and part.boot_id and part.start_unix_ns:
            boots.setdefault((part.host, part.boot_id), []).append(part)
    for boot in boots.values():
        boot.sort(key=lambda part: part.start_ns)
        ahead, reach = boot[0].start_unix_ns - boot[0].start_ns, boot[0].start_ns
        for part in boot:
            if part.start_ns > reach + 50_000_000:
                ahead = max(ahead, part.start_unix_ns - part.start_ns)
            last = max((sample[0] for sample in part.samples), default=part.start_ns)
            reach = max(reach, last if part.end_ns is None else part.end_ns)
            start[id(part)] = part.start_ns + ahead
    return start


def samples(parts):
    start = starts(parts)
    zero = min(start.values(), default=0)
    rows = []
    for part in parts:
        spaces, places = replay(part), cgroups(part)
        for time, cpu, event, task, weight, kernel, user, snapshot in part.samples:
            tgid, tid, comm = part.tasks.get(task, (0, 0, None))
            begun = [space for space in spaces.get(tgid, []) if space.begin <= time]
            space = begun[-1] if begun else None
            rows.append({
                "time_ns": time - part.start_ns + start[id(part)] - zero,
                "tgid": tgid, "tid": tid, "comm": part.strings.get(comm, "?"), "cpu": cpu,
                "cgroup": cgroup_at(part, places, tgid, tid, time),
                "event": part.events[event] if event < len(part.events) else "?", "weight": weight,
                "ended": ENDS[user[1]] if user[1] < len(ENDS) else "unknown",
                "kernel_ended": ENDS[kernel[1]] if kernel[1] < len(ENDS) else "unknown",
                "kernel": [frame.get("address") for frame in frames(part, space, time, kernel[0], False)],
                "user": frames(part, space, time, user[0], True), "has_snapshot": snapshot > 0,
            })
    return sorted(rows, key=lambda row: (row["time_ns"], row["cpu"]))


def main():
    with open(sys.argv[1], "rb") as file:
        recording = Recording(file.read(), "--scan" in sys.argv[2:])
    parts, unknown = read(recording)
    document = {
        "closed": recording.closed, "blocks": [block.info() for block in recording.blocks],
        "index": [row.info() for row in recording.rows], "unknown_blocks": unknown, "said": recording.said, "samples": samples(parts),
        "symbols": [symbol for part in parts for symbol in part.symbols],
        "jit": [row for part in parts for row in part.jit],
        "image_parts": [block for part in parts for block in part.image_parts],
        "names": [place for part in parts for place in part.names],
        "sources": [row for part in parts for row in part.sources],
        "code": [row for part in parts for row in part.code],
        "left_out": [row for part in parts for row in part.left_out],
        "snapshot_ids": [row[7] for part in parts for row in part.samples],
        "snapshots": [held(part, id) for part in parts for id in part.snapshots],
        "unwind_rules": [row for part in parts for row in part.unwind_rules],
        "cpu_times": [row for part in parts for row in part.cpu_times],
        "waits": [row for part in parts for row in part.waits],
        "counters": [row for part in parts for row in part.counters],
        "fields": [row for part in parts for row in part.fields],
        "triggers": [row for part in parts for row in part.triggers],
        "rates": [row for part in parts for row in part.rates],
        "stack_marks": [[node, mark] for part in parts for node, mark in part.marks.items()],
        "settings": [part.settings for part in parts if part.settings],
        "ends": [part.end for part in parts if part.end],
        "mount_namespaces": [[part.mount_ns, [row[7] for row in part.mappings]] for part in parts],
    }
    json.dump(document, sys.stdout)
    print()


if __name__ == "__main__":
    main()
