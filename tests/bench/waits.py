#!/usr/bin/env python3
"""What it costs to record waits: two threads that wake each other as fast as they can, on one CPU.

usage: waits.py FOLDER-WITH-PROGRAMS [RUNS]

Each recorder runs around the same program, in turn, beside a run without a recorder. The program times itself. `slower` is its time
divided by that of the run without a recorder of the same round; `CPU` is that of the recorder's own process, from its start to its end,
names included; `BPF` is what the kernel counts for its programs. Figures are medians; compare the ratios. perf and offcputime (of
libbpf-tools) take part where they are installed.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import perf_counts, recorded

ROUNDS = 400_000
PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static long rounds;

static void *echo(void *unused)
{
	char c;

	for (long i = 0; i < rounds; i++)
		if (read(there[0], &c, 1) != 1 || write(back[1], &c, 1) != 1)
			abort();
	return 0;
}

int main(int argc, char **argv)
{
	struct timespec begun, ended;
	struct rusage usage;
	pthread_t other;
	cpu_set_t one;
	char c = 0;

	rounds = atol(argv[1]);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one) || pipe(there) || pipe(back) || pthread_create(&other, 0, echo, 0))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (long i = 0; i < rounds; i++)
		if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			abort();
	clock_gettime(CLOCK_MONOTONIC, &ended);
	pthread_join(other, 0);
	getrusage(RUSAGE_SELF, &usage);
	printf("%.6f %ld\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) / 1e9, usage.ru_nvcsw + usage.ru_nivcsw);
	return 0;
}
"""


class PingPong:
    """The program, and what its last run printed."""

    def __init__(self, folder):
        source, self.path = folder / "pingpong.c", folder / "pingpong"
        source.write_text(PROGRAM)
        subprocess.run(["cc", "-O2", "-pthread", "-o", self.path, source], check=True)
        self.out = folder / "told"
        # What runs beside a recorder has its output thrown away.
        self.command = ["sh", "-c", f"exec {self.path} {ROUNDS} > {self.out}"]

    def told(self):
        seconds, switches = self.out.read_text().split()
        return float(seconds), int(switches)


def icecore(programs, folder, *options):
    file = folder / "r.icecore"

    def run(workload):
        cost = recorded([programs / "icecore-record", "-a", "-q", "--force", "-o", file, *options], workload.command)
        text = subprocess.run([programs / "icecore-report", "info", file, "--json"], check=True, capture_output=True).stdout
        receipt = json.loads(text)["receipt"]
        return {"cpu": cost["cpu"], "bpf": receipt["bpf_ns"] / 1e9, "bytes": file.stat().st_size,
                "kept": receipt["samples"], "lost": receipt["lost"]}

    return run


def perf(folder, *command):
    data = folder / "perf.data"

    def run(workload):
        cost = recorded(["perf", *command, "-o", data], workload.command)
        kept, lost = perf_counts(data)
        return {"cpu": cost["cpu"], "bytes": data.stat().st_size, "kept": kept, "lost": lost}

    return run


def offcputime(folder):
    out = folder / "offcputime.txt"

    def run(workload):
        with open(out, "wb") as text:
            cost = recorded(["sh", "-c", f"exec offcputime > {out}"], workload.command)
        return {"cpu": cost["cpu"], "bytes": out.stat().st_size}

    return run


def main():
    programs = Path(sys.argv[1]).resolve()
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if os.geteuid() != 0:
        sys.exit("waits: recording needs privileges: run as root")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload = PingPong(folder)
        tools = {
            "icecore --off-cpu-only=1ms": icecore(programs, folder, "--off-cpu-only=1ms"),
            "  and --wakers": icecore(programs, folder, "--off-cpu-only=1ms", "--wakers"),
            "  =1us": icecore(programs, folder, "--off-cpu-only=1us"),
            "  =10us --max-event-rate 0": icecore(programs, folder, "--off-cpu-only=10us", "--max-event-rate", "0"),
            "  =1us --max-event-rate 0 (all)": icecore(programs, folder, "--off-cpu-only=1us", "--max-event-rate", "0"),
        }
        if shutil.which("perf"):
            tools["perf -e sched:sched_switch -g"] = perf(folder, "record", "-q", "-a", "-g", "-e", "sched:sched_switch")
            tools["perf sched record"] = perf(folder, "sched", "record", "-a")
        if shutil.which("offcputime"):
            tools["offcputime"] = offcputime(folder)
        results = {label: [] for label in tools}
        for _ in range(runs):
            subprocess.run(workload.command, check=True)
            alone, _ = workload.told()
            for label, tool in tools.items():
                row = tool(workload)
                seconds, switches = workload.told()
                results[label].append({**row, "slower": seconds / alone, "seconds": seconds, "switches": switches, "alone": alone})
    first = [row for rows in results.values() for row in rows]
    print(f"{statistics.median(row['switches'] / row['alone'] for row in first):,.0f} switches a second without a recorder; "
          f"medians of {runs} runs; per switch, if not said otherwise")
    print(f"{'':32}{'slower':>8}{'CPU ns':>8}{'BPF ns':>8}{'bytes':>8}{'MB/s':>8}{'kept':>10}{'lost':>9}")
    for label, rows in results.items():
        def of(key, per="switches", unit=1.0):
            return statistics.median(row[key] * unit / row[per] for row in rows) if all(key in row for row in rows) else None
        def cell(value, form, width=8):
            return f"{'' if value is None else format(value, form):>{width}}"
        for row in rows:
            row["one"] = 1
        print(f"{label:32}{cell(of('slower', 'one'), '.2f')}{cell(of('cpu', unit=1e9), ',.0f')}{cell(of('bpf', unit=1e9), ',.0f')}"
              f"{cell(of('bytes'), ',.2f')}{cell(of('bytes', 'seconds', 1e-6), ',.2f')}{cell(of('kept', 'one'), ',.0f', 10)}"
              f"{cell(of('lost', 'one'), ',.0f', 9)}")
    print("slower: time of the program divided by its time without a recorder; CPU: of the recorder; bytes: of the file; kept, lost: samples")


if __name__ == "__main__":
    main()
