"""Reads what Mozilla's profiler-cli loads: profiles of Firefox Profiler, text of `perf script`, folded stacks."""

import gzip
import json
from pathlib import Path

from . import PACKAGES, Sums, folder, node, run, version

CLI = PACKAGES / "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"


class Loaded:
    """A profile in the daemon of profiler-cli, which ends with it."""

    def __init__(self, file, symbol_server=None):
        self.file, self.symbol_server = file, symbol_server

    def __enter__(self):
        self.home = folder()
        # Its sessions are files in this folder, so it sees and ends only the daemon of this reader.
        self.env = {"HOME": self.home.name, "PROFILER_CLI_SESSION_DIR": self.home.name, "NO_COLOR": "1"}
        try:
            server = ["--symbol-server", self.symbol_server] if self.symbol_server else []
            self.said = self.begun("load", self.file, *server)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.text("stop", "--all")
        finally:
            self.home.cleanup()

    def text(self, *args):
        return run([node(), CLI, *args], self.env)

    def begun(self, *args):
        """Runs what begins the daemon. On a busy machine that takes more than the half second for which profiler-cli waits."""
        for left in (2, 1, 0):
            try:
                return self.text(*args)
            except SystemExit as error:
                if not left or "did not become ready" not in str(error):
                    raise
                self.text("stop", "--all")

    def ask(self, *args):
        return json.loads(self.text(*args, "--json"))


def read(options):
    local = "://" not in options.file
    with Loaded(options.file, options.symbol_server) as loaded:
        sums, facts = summed(loaded)
        facts["file"] = stored(options.file) if local else {}
    return sums.result(f"profiler-cli {version('@firefox-devtools/profiler-cli')}", facts)


def summed(loaded):
    """Sums of all threads by the type of their weights, and what the profile has besides."""
    sums, facts = Sums(), {}
    info, meta = loaded.ask("profile", "info", "--all"), loaded.ask("profile", "meta")
    facts["meta"] = {key: value for key, value in meta.items() if key not in ("type", "context")}
    facts["extra"] = {part["label"]: {it["label"]: it["value"] for it in part["entries"]} for part in meta.get("extra", [])}
    facts["range_ms"] = info["context"]["rootRange"]
    facts["threads"], facts["markers"] = [], {}
    for process in info["processes"]:
        for thread in process["threads"]:
            found = functions(loaded, thread["threadHandle"])
            event = found["weightType"]
            own = {}
            for it in found["functions"]:
                entry = own.setdefault(it["name"], [0, 0])
                entry[0] += it["selfSamples"]
                entry[1] += it["totalSamples"]
                sums.merge(event, it["name"], it["selfSamples"], it["totalSamples"])
            total = sum(entry[0] for entry in own.values())
            sums.totals[event] = sums.totals.get(event, 0) + total
            names = [it["name"] for it in found["functions"]]
            facts["threads"].append({
                "name": thread["name"], "tid": thread["tid"], "pid": process["pid"], "process": process["name"], "event": event,
                "total": total, "functions": own, "same_names": sorted({it for it in names if names.count(it) > 1}),
                "libraries": {it["name"]: it.get("library", "") for it in found["functions"]},
            })
            facts["markers"][f"{thread['name']} {thread['tid']}"] = markers(loaded, thread["threadHandle"])
    facts["counters"] = [counter(loaded, it["counterHandle"]) for it in loaded.ask("counter", "list")["counters"]]
    return sums, facts


def functions(loaded, thread):
    # Samples in a category with the name "Idle" are left out otherwise.
    return loaded.ask("thread", "functions", "--thread", thread, "--limit", "0", "--include-idle")


def markers(loaded, thread):
    """Markers of a thread by name: how many, how many have a stack, the sum of their durations in ms, and the values of fields."""
    found = {}
    for it in loaded.ask("thread", "markers", "--thread", thread, "--list", "--limit", "0").get("flatMarkers", []):
        entry = found.setdefault(it["name"], {"count": 0, "stacks": 0, "ms": 0, "types": [], "labels": {}, "fields": {}})
        entry["count"] += 1
        entry["stacks"] += it["hasStack"]
        entry["ms"] += it.get("duration", 0)
        entry["types"] = sorted({*entry["types"], it.get("markerType") or ""})
        entry["labels"][it["label"]] = entry["labels"].get(it["label"], 0) + 1
        for field in it.get("fields", []):
            values = entry["fields"].setdefault(field["key"], {})
            value = str(field["formattedValue"])
            if value in values or len(values) < 100:
                values[value] = values.get(value, 0) + 1
        if it["hasStack"] and "first_stack" not in entry:
            # Outermost first.
            frames = loaded.ask("marker", "stack", it["handle"])["stack"]["frames"]
            entry["first_stack"] = [frame["name"] for frame in reversed(frames)]
    return found


def counter(loaded, handle):
    found = loaded.ask("counter", "info", handle)
    keys = ("name", "label", "category", "description", "unit", "graphType", "pid", "sampleCount", "rangeSampleCount")
    return {key: found.get(key) for key in keys} | {"values": [it["value"] for it in found.get("overTime", [])]}


def stored(file):
    """What the file itself says: profiler-cli prints no codeId, and it changes an older format as it loads it."""
    data = Path(file).read_bytes()
    packed = data[:2] == b"\x1f\x8b"
    profile = json.loads(gzip.decompress(data) if packed else data)
    shared = profile.get("shared", {})
    frames = shared.get("frameTable", {})
    return {
        "gzip": packed, "bytes": len(data), "version": profile["meta"].get("preprocessedProfileVersion"),
        "code_ids": {it["name"]: it.get("codeId") for it in profile.get("libs", [])},
        "categories": [it["name"] for it in profile["meta"].get("categories", [])],
        "marker_schemas": [it["name"] for it in profile["meta"].get("markerSchema", [])],
        "inlined_frames": sum(depth > 0 for depth in frames.get("inlineDepth", [])),
        "lines": sum(line is not None for line in frames.get("line", [])),
        "weight_types": sorted({thread["samples"].get("weightType", "samples") for thread in profile["threads"]}),
        "samples": sum(thread["samples"]["length"] for thread in profile["threads"]),
        "broken": broken(shared),
    }


def broken(shared):
    """Indices of the shared tables that point nowhere: the loader of profiler-cli checks none of them."""
    def rows(name):
        return shared.get(name, {}).get("length", 0)

    strings = len(shared.get("stringArray", []))
    columns = [
        ("stackTable", "frame", rows("frameTable"), False), ("frameTable", "func", rows("funcTable"), False),
        ("frameTable", "nativeSymbol", rows("nativeSymbols"), True), ("funcTable", "name", strings, False),
        ("funcTable", "source", rows("sources"), True), ("funcTable", "resource", rows("resourceTable"), True),
        ("resourceTable", "name", strings, False), ("nativeSymbols", "name", strings, False),
        ("sources", "filename", strings, False),
    ]
    wrong = []
    for table, column, limit, may_lack in columns:
        for at, index in enumerate(shared.get(table, {}).get(column, [])):
            if not (may_lack and (index is None or index == -1)) and not (isinstance(index, int) and 0 <= index < limit):
                wrong.append(f"{table}.{column}[{at}] is {index}, of {limit}")
    for at, offset in enumerate(shared.get("stackTable", {}).get("prefixOffset", [])):
        if not 0 <= offset <= at:
            wrong.append(f"stackTable.prefixOffset[{at}] is {offset}")
    for table, columns in shared.items():
        if isinstance(columns, dict):
            lengths = {key: len(value) for key, value in columns.items() if isinstance(value, list)}
            wrong += [f"{table}.{key} has {has} rows of {rows(table)}" for key, has in lengths.items() if has != rows(table)]
    return wrong[:20]
