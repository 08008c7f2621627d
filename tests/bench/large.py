#!/usr/bin/env python3
"""Times the report on large synthetic recordings.

usage: large.py FOLDER-WITH-PROGRAMS [MILLIONS-OF-SAMPLES-OF-THE-LARGEST]

Files are in the page cache, as after a copy. Times are the least of three runs. The plain estimate is what the same
samples cost as rows of a struct in zstd frames of one second.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(*command):
    def once():
        begin = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begin

    return min(once() for _ in range(3))


def main():
    programs = Path(sys.argv[1]).resolve()
    largest = int(sys.argv[2]) if len(sys.argv) > 2 else 230
    report = programs / "icecore-report"
    with tempfile.TemporaryDirectory() as name:

        def synthesized(millions):
            file = Path(name) / f"{millions}.icecore"
            command = [programs / "synthesize", str(millions * 1_000_000), file]
            return file, json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

        print("synthetic recordings: 8 CPUs, 999 Hz, 200 threads, 50,000 distinct user stacks")
        file, wrote = synthesized(10)
        samples = wrote["samples"]
        print(f"{'':44}{'icecore':>10}{'plain':>10}{'ratio':>8}")

        def row(title, own, plain, form):
            print(f"{title:44}{form.format(own):>10}{form.format(plain):>10}{own / plain:>8.2f}")

        row("file, bytes per sample", wrote["bytes"] / samples, wrote["plain_bytes"] / samples, "{:.2f}")
        own, plain = 1e3 / wrote["ns_per_sample"], 1e3 / wrote["plain_ns_per_sample"]
        row("write, million samples per second", own, plain, "{:.2f}")
        summary = seconds(report, "summary", file)
        print(f"summary of 10 million samples: {summary:.2f} s, {summary * 1e3 / 10:.0f} ns per sample")
        narrow = seconds(report, "top", file, "--from", "100s", "--to", "101s")
        print(f"top of one second of it: {narrow:.2f} s")
        large, _ = synthesized(largest)
        size = large.stat().st_size / 1e9
        opened, read = seconds(report, "info", large), seconds("cksum", large)
        print(f"open and info of {size:.2f} GB: {opened * 1e3:.0f} ms; reading every byte of it (cksum): {read:.2f} s")


main()
