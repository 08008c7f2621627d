#!/usr/bin/env python3
"""What stacks cost that the sampler walks by unwind tables, beside copies and beside `perf record -g`.

usage: walks.py FOLDER-WITH-PROGRAMS [RUNS [PROGRAM...]]

Each tool records the whole machine around the same program, at two rates; tools alternate, and figures are medians of
RUNS (3). perf counts samples of idle CPUs, icecore-record does not take them. `auto` compiles all unwind tables, `auto, again` has those that
take long from an earlier recording.

  CPU ms   of the recorder, in all
  BPF µs   inside the sampled programs, a sample
  B        of the file, a sample
  µs more, B more   CPU time and bytes for each sample that the higher rate has more: what does not depend on how long it records
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
COLUMNS = ["samples", "CPU ms", "µs more", "BPF µs", "B", "B more", "MiB", "walked", "rooted", "agree", "first"]


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
    cost = recorded([record, "-a", "-F", rate, "-q", "--force", *mode, "-o", file], workload)
    receipt = json.loads(read(report, "info", file))["receipt"]
    health = json.loads(read(report, "health", file))
    audit = health.get("audit") or {"walked": 0, "checked": 0, "agree": 0}
    stacks = sum(count for end, count in health["user_ends"].items() if end != "none") or 1
    samples = receipt["samples"] or 1
    return {
        "samples": samples, "cpu": cost["cpu"], "BPF µs": receipt["bpf_ns"] / samples / 1000,
        "bytes": file.stat().st_size, "MiB": receipt["peak_rss_bytes"] / 2**20, "walked": audit["walked"] / stacks,
        "rooted": health["rooted_share"], "checked": audit["checked"], "agree": audit["agree"],
        "first": first_walk(report, file) if audit["walked"] else None,
    }


def of_perf(file, rate, workload):
    cost, samples, _ = perf_recorded(file, "cpu-clock", rate, [], lambda: workload)
    return {"samples": samples, "cpu": cost["cpu"], "bytes": file.stat().st_size}


def tools(binaries, folder, rate):
    """The tools: each records around a command."""
    file = folder / "recording"
    return {
        "auto": lambda command: of_icecore(binaries, file, rate, ["--no-cache"], command),
        "auto, again": lambda command: of_icecore(binaries, file, rate, [], command),
        "copy": lambda command: of_icecore(binaries, file, rate, ["--unwind", "copy"], command),
        "perf -g": lambda command: of_perf(file, rate, command),
    }


def median(rows, key):
    return statistics.median(row[key] for row in rows) if rows[0].get(key) is not None else None


def cells(rows, fewer):
    """The columns of a tool, from the figures of its runs, and of those at a lower rate if there are any."""
    form = lambda value, how: "" if value is None else format(value, how)
    of = lambda key, how: form(median(rows, key), how)
    more = lambda key: (median(rows, key) - median(fewer, key)) / (median(rows, "samples") - median(fewer, "samples")) if fewer else None
    cpu_more = more("cpu")
    checked, agree = (sum(row.get(key, 0) for row in rows) for key in ("checked", "agree"))
    return [of("samples", ".0f"), f"{1e3 * median(rows, 'cpu'):.0f}", form(cpu_more and 1e6 * cpu_more, ".1f"), of("BPF µs", ".1f"),
            f"{median(rows, 'bytes') / median(rows, 'samples'):.0f}", form(more("bytes"), ".1f"), of("MiB", ".0f"), of("walked", ".1%"),
            of("rooted", ".2%"), f"{agree} of {checked}" if checked else "", of("first", ".2f")]


def main():
    binaries = Path(sys.argv[1]).resolve()
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print("| program | Hz | tool | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 3) + "|")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        Path(folder).chmod(0o755)
        for name in sys.argv[3:] or DEFAULT:
            own = Path(folder) / name
            own.mkdir()
            try:
                command = PROGRAMS[name](own)
            except Missing as missing:
                print(f"| {name} | {missing} is not installed |", flush=True)
                continue
            # So that there are tables from before.
            tools(binaries, Path(folder), RATES[-1])["auto, again"](command)
            fewer = {}
            for rate in RATES:
                chosen = tools(binaries, Path(folder), rate)
                rows = {tool: [] for tool in chosen}
                for _ in range(runs):
                    for tool, record in chosen.items():
                        rows[tool].append(record(command))
                for tool in chosen:
                    print(f"| {name} | {rate} | {tool} | " + " | ".join(cells(rows[tool], fewer.get(tool))) + " |", flush=True)
                fewer = rows


main()
