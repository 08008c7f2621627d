#!/usr/bin/env python3
"""What stacks cost that the sampler walks by unwind tables, beside copies and beside `perf record -g`.

usage: walks.py FOLDER-WITH-PROGRAMS [RUNS [PROGRAM...]]

Each tool records the whole machine around the same program; tools alternate, and figures are medians of RUNS (3).

  CPU µs   of the recorder, a sample: all of it, and without what a recording of the idle machine costs
  BPF µs   inside the sampled programs, a sample
  B        of the file, a sample; without files of debug information, of which perf.data has none
  MiB      peak memory of the recorder, as its receipt says it
  walked   user stacks that were walked by unwind tables
  rooted   user stacks whose outermost frame is a proven start
  agree    walks that were checked against a copy, and how many of them agree
  first    seconds from the first sample of the image that was hit most to the first one whose stack was walked
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from compare import perf_recorded, recorded
from quality import PROGRAMS, Missing

DEFAULT = ["gcc", "rustc", "python3", "node", "go", "postgres", "redis"]
RATES = ["99", "999"]
COLUMNS = ["samples", "CPU µs", "without start", "BPF µs", "B", "MiB", "walked", "rooted", "agree", "first"]


def read(report, view, file, *options):
    return subprocess.run([report, view, "--json", *options, file], check=True, stdout=subprocess.PIPE, text=True).stdout


def first_walk(report, file):
    """Seconds from the first sample to the first walk of the image whose code was hit most."""
    rows = [json.loads(line) for line in read(report, "samples", file).splitlines()]
    leaf = lambda row: next((frame["image"] for frame in row["frames"] if frame["side"] == "user"), None)
    images = Counter(leaf(row) for row in rows)
    del images[None]
    if not images:
        return None
    most = images.most_common(1)[0][0]
    own = [row for row in rows if leaf(row) == most]
    walked = [row["time_ns"] for row in own if row["ended"] == "by_tables"]
    return (walked[0] - own[0]["time_ns"]) / 1e9 if walked else None


def of_icecore(binaries, file, rate, mode, workload):
    """A row of figures."""
    record, report = binaries / "icecore-record", binaries / "icecore-report"
    cost = recorded([record, "-a", "-F", rate, "-q", "--force", "--unwind", mode, "-o", file], workload)
    receipt = json.loads(read(report, "info", file))["receipt"]
    health = json.loads(read(report, "health", file))
    audit = health.get("audit") or {"walked": 0, "checked": 0, "agree": 0}
    stacks = sum(count for end, count in health["user_ends"].items() if end != "none") or 1
    samples = receipt["samples"] or 1
    return {
        "samples": samples, "cpu": cost["cpu"], "BPF µs": receipt["bpf_ns"] / samples / 1000,
        "B": file.stat().st_size / samples, "MiB": receipt["peak_rss_bytes"] / 2**20, "walked": audit["walked"] / stacks,
        "rooted": health["rooted_share"], "checked": audit["checked"], "agree": audit["agree"],
        "first": first_walk(report, file) if mode == "auto" else None,
    }


def of_perf(file, rate, workload):
    cost, samples, _ = perf_recorded(file, "cpu-clock", rate, [], lambda: workload)
    return {"samples": samples, "cpu": cost["cpu"], "B": file.stat().st_size / samples}


def tools(binaries, folder, rate):
    """The tools: each records around a command."""
    file = folder / "recording"
    return {
        "auto": lambda command: of_icecore(binaries, file, rate, "auto", command),
        "copy": lambda command: of_icecore(binaries, file, rate, "copy", command),
        "perf -g": lambda command: of_perf(file, rate, command),
    }


def cells(rows, idle_cpu):
    """The columns of a tool, from the figures of its runs."""
    median = lambda key: statistics.median(row[key] for row in rows) if rows[0].get(key) is not None else None
    form = lambda value, how: "" if value is None else format(value, how)
    per_sample = [1e6 * row["cpu"] / row["samples"] for row in rows]
    started = [1e6 * max(row["cpu"] - idle_cpu, 0) / row["samples"] for row in rows]
    checked = sum(row.get("checked", 0) for row in rows)
    agree = sum(row.get("agree", 0) for row in rows)
    return [f"{median('samples'):.0f}", f"{statistics.median(per_sample):.1f}", f"{statistics.median(started):.1f}", form(median("BPF µs"), ".1f"),
            f"{median('B'):.0f}", form(median("MiB"), ".0f"), form(median("walked"), ".1%"), form(median("rooted"), ".2%"),
            f"{agree} of {checked}" if checked else "", form(median("first"), ".2f")]


def main():
    binaries = Path(sys.argv[1]).resolve()
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print("| program | Hz | tool | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 3) + "|")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for rate in RATES:
            chosen = tools(binaries, Path(folder), rate)
            idle = {tool: min(record(["sleep", "1"])["cpu"] for _ in range(runs)) for tool, record in chosen.items()}
            for name in sys.argv[3:] or DEFAULT:
                own = Path(folder) / f"{name}-{rate}"
                own.mkdir()
                try:
                    command = PROGRAMS[name](own)
                except Missing as missing:
                    print(f"| {name} | {missing} is not installed |", flush=True)
                    continue
                rows = {tool: [] for tool in chosen}
                for _ in range(runs):
                    for tool, record in chosen.items():
                        rows[tool].append(record(command))
                for tool in chosen:
                    print(f"| {name} | {rate} | {tool} | " + " | ".join(cells(rows[tool], idle[tool])) + " |", flush=True)


main()
