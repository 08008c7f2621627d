#!/usr/bin/env python3
"""Measures what a recorder that is left running costs: bytes a day, CPU, memory, and the time from a trigger to the file; then start-up beside perf.

    python3 tests/bench/unattended.py FOLDER [SECONDS]     the folder of the two programs; seconds of a recording, 60 by default

The machine is idle, or busy with one loop that starts programs and one that computes, on each half of the CPUs. Every row is the mean of one
recording of the whole machine in files of a quarter of its seconds; a day is what such seconds would add up to. CPU is that of the recorder, percent
of one CPU, and what its programs in the kernel took of others; memory is its largest resident set. Triggers and starts are medians.
"""

import contextlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "target/release").resolve()
RECORD, REPORT = FOLDER / "icecore-record", FOLDER / "icecore-report"
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
DAY = 24 * 3600
TRIGGERS = 5
STARTS = 15


@contextlib.contextmanager
def load(is_busy):
    half = max(1, os.cpu_count() // 2) if is_busy else 0
    starts = [subprocess.Popen(["sh", "-c", "while :; do /bin/true; done"]) for _ in range(half)]
    computes = [subprocess.Popen([sys.executable, "-c", "while True: sum(i * i for i in range(1000))"]) for _ in range(half)]
    try:
        yield
    finally:
        for one in starts + computes:
            one.kill()
            one.wait()


def receipt(file):
    info = json.loads(subprocess.run([REPORT, "info", file, "--json"], check=True, capture_output=True).stdout)
    return info["receipt"]


def peak_mib(pid):
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def recorded(options, folder):
    """A recording of the whole machine: bytes a day, CPU and BPF in percent of one CPU, MiB, samples, lost."""
    line = [RECORD, "-q", "-a", *options, "-d", str(SECONDS), "-o", folder / "r.icecore"]
    recorder = subprocess.Popen(line)
    memory = 0.0
    while recorder.poll() is None:
        with contextlib.suppress(FileNotFoundError):
            memory = max(memory, peak_mib(recorder.pid))
        time.sleep(0.2)
    files = sorted(folder.glob("r*.icecore"))
    receipts = [receipt(file) for file in files]
    total = lambda key: sum(one[key] for one in receipts)
    size = sum(file.stat().st_size for file in files)
    for file in files:
        file.unlink()
    cpu = (total("user_cpu_ns") + total("kernel_cpu_ns")) / SECONDS / 1e7
    return size * DAY / SECONDS / 2**20, cpu, total("bpf_ns") / SECONDS / 1e7, memory, total("samples"), total("lost")


def triggered(folder):
    """Seconds from `ctl snapshot` to its answer, of a history that is full."""
    line = [RECORD, "-q", "-a", "-F", "99", "--flight", "10s", "--control", folder / "socket", "-o", folder / "h.icecore"]
    recorder = subprocess.Popen(line)
    seconds = []
    for _ in range(TRIGGERS):
        time.sleep(13)
        begun = time.monotonic()
        subprocess.run([RECORD, "ctl", "--socket", folder / "socket", "snapshot"], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.monotonic() - begun)
    memory = peak_mib(recorder.pid)
    recorder.terminate()
    recorder.wait()
    return statistics.median(seconds), max(seconds), memory


def started(line):
    """Wall and CPU seconds of a recording of `true`."""
    walls, cpus = [], []
    for _ in range(STARTS):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        walls.append(time.monotonic() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(walls), statistics.median(cpus)


with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    print(f"{'MACHINE':8}{'HZ':>4}{'MiB A DAY':>12}{'CPU':>8}{'BPF':>8}{'MEMORY':>10}{'SAMPLES':>9}{'LOST':>6}")
    rotated = ["--rotate", f"{SECONDS / 4}s"]
    for name in ("idle", "busy"):
        with load(name == "busy"):
            time.sleep(2)
            for hz in ("19", "99"):
                mib, cpu, bpf, memory, samples, lost = recorded(["-F", hz, *rotated], folder)
                print(f"{name:8}{hz:>4}{mib:12.0f}{cpu:7.2f}%{bpf:7.2f}%{memory:6.0f} MiB{samples:9,}{lost:6,}", flush=True)
            median, most, memory = triggered(folder)
            print(f"{name:8}  99  from a trigger to the file of 10 s: {median:.2f} s, {most:.2f} s at most; "
                  f"{memory:.0f} MiB", flush=True)
    ours = started([RECORD, "-q", "--force", "-o", folder / "t.icecore", "true"])
    perf = started(["perf", "record", "-q", "-g", "-o", folder / "t.data", "true"])
    print(f"start: a recording of `true` takes {ours[0]:.3f} s and {ours[1]:.3f} s of CPU; perf record -g {perf[0]:.3f} and {perf[1]:.3f}")
