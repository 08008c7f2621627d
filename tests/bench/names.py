#!/usr/bin/env python3
"""Names the frames of a real build with icecore-report and perf report, and prints what each took.

usage: names.py FOLDER-WITH-PROGRAMS [SECONDS]

A part of the build of this workspace is recorded with both, system-wide: most samples are in the compiler's driver, an
image of 150 MB. The first report finds nothing in its cache, the second finds what the first has found out. Figures
are medians of three runs; compare the ratios.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

from compare import RATE, measured, perf_recorded, recorded, summary

RUNS = 3


def build(target, seconds):
    """The same part of the same build every time."""
    command = f"rm -rf {target}; timeout {seconds} cargo build --quiet --workspace --target-dir {target} >/dev/null 2>&1"
    return ["sh", "-c", f"{command} || true"]


def median(command, before=lambda: None):
    """Medians of the seconds and of the peak memory of some runs."""
    runs = []
    for _ in range(RUNS):
        before()
        runs.append(measured(command))
    return [statistics.median(run[key] for run in runs) for key in ("seconds", "rss")]


def main():
    programs, seconds = Path(sys.argv[1]).resolve(), (sys.argv[2:] or ["40"])[0]
    record, report = programs / "icecore-record", programs / "icecore-report"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        file, data = folder / "r.icecore", folder / "perf.data"
        workload = build(folder / "target", seconds)
        recorded([record, "-a", "-F", RATE, "-q", "--force", "--unwind", "fp", "-o", file], workload)
        _, samples, _ = perf_recorded(data, "cpu-clock", RATE, [], lambda: workload)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        clear = lambda: measured([report, "cache", "--clear"])
        top = [report, "top", file, "-n", "0"]
        rows = [
            ("first report", median(top, clear)),
            ("first report, one thread", median([*top, "--threads", "1"], clear)),
            ("second report", median(top)),
            ("without a cache", median([*top, "--no-cache"])),
        ]
        peer = median(["perf", "report", "--stdio", "--no-children", "-g", "none", "-i", data])
        print(f"{seconds} s of a build at {RATE} Hz: {summary(report, file)['samples']:,} samples, perf {samples:,}")
        print(f"{'':<28}{'seconds':>10}{'peak MiB':>12}{'ratio':>10}{'ratio':>10}")
        for name, (time, rss) in [*rows, ("perf report", peer)]:
            print(f"{name:<28}{time:>10.2f}{rss / 2**20:>12.0f}{time / peer[0]:>10.2f}{rss / peer[1]:>10.2f}")
        print("ratio: divided by perf report; below 1 is better")


if __name__ == "__main__":
    main()
