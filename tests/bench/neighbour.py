"""Measures what a recording costs a process that is no target: a call of a function that is probed, a switch of threads, and time on the CPU.

    python3 tests/bench/neighbour.py FOLDER    the folder of the two programs

The target of every recording sleeps. The process beside it runs three times as long; each figure is the median of its readings while the
recording runs. perf does the same for the same target. A program that probes a function needs root.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "target/release").resolve()
RECORD = str(FOLDER / "icecore-record")
SECONDS = 2


def compiled(folder, name):
    path = folder / name
    subprocess.run(["cc", "-O2", "-pthread", "-o", path, PROGRAMS / f"{name}.c"], check=True)
    return path


def beside(recorder, measure):
    """Runs `measure` while a recorder runs; `None` is no recorder."""
    running = subprocess.Popen(recorder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if recorder else None
    time.sleep(1)
    value = measure()
    if running:
        running.terminate()
        running.wait()
    return value


def ns_per_call(forks):
    spins = subprocess.Popen([forks, "spin"], stdout=subprocess.PIPE, text=True)
    time.sleep(SECONDS)
    spins.terminate()
    return statistics.median(float(line.split()[1]) for line in spins.communicate()[0].splitlines() if " " in line)


def ns_per_turn(ping_pong):
    output = subprocess.run([ping_pong, str(SECONDS * 1000)], stdout=subprocess.PIPE, text=True, check=True).stdout
    ns, turns = map(int, output.split())
    return ns / turns


with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    forks, ping_pong = compiled(folder, "forks"), compiled(folder, "ping_pong")
    ours = [RECORD, "-q", "--force", "-o", folder / "r.icecore"]
    perf = ["perf", "record", "-q", "-o", folder / "perf.data"]
    target = ["--", "sleep", "60"]
    subprocess.run(["perf", "probe", "-q", "-x", forks, "--add", "hit"], check=True)
    probe = ["-e", f"uprobe:{forks}:hit"]
    rows = [
        ("uprobe: ns per call", lambda: ns_per_call(forks), [
            ("alone", None),
            ("icecore-record, command", [*ours, *probe, *target]),
            ("icecore-record -a", [*ours, *probe, "-a", *target]),
            ("perf record, command", [*perf, "-e", "probe_forks:hit", *target]),
        ]),
        ("waits: ns per switch", lambda: ns_per_turn(ping_pong), [
            ("alone", None),
            ("icecore-record --off-cpu=1us", [*ours, "--off-cpu-only=1us", *target]),
            ("icecore-record --off-cpu=1us --wakers", [*ours, "--off-cpu-only=1us", "--wakers", *target]),
            ("icecore-record --off-cpu=1us --wakers -a", [*ours, "--off-cpu-only=1us", "--wakers", "-a", *target]),
            ("perf record -e sched:sched_switch", [*perf, "-e", "sched:sched_switch", *target]),
            ("perf record -e sched:sched_switch -a", [*perf, "-e", "sched:sched_switch", "-a", *target]),
            ("perf sched record", ["perf", "sched", "record", "-o", folder / "perf.data", *target]),
        ]),
        ("CPU sampling at 999 Hz: ns per call", lambda: ns_per_call(forks), [
            ("alone", None),
            ("icecore-record, command", [*ours, "-F", "999", *target]),
            ("icecore-record -a", [*ours, "-F", "999", "-a", *target]),
            ("perf record, command", [*perf, "-F", "999", "-g", *target]),
        ]),
    ]
    try:
        for title, measure, recorders in rows:
            print(title)
            for name, recorder in recorders:
                print(f"  {beside(recorder, measure):9.2f}  {name}", flush=True)
    finally:
        subprocess.run(["perf", "probe", "-q", "-d", "probe_forks:*"], check=False)
