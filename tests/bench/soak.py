#!/usr/bin/env python3
"""Records the whole machine while one storm after another rages, and prints what the recorder needed and lost.

usage: soak.py FOLDER-WITH-PROGRAMS [SECONDS]     (600 by default)

Storms are those of tests/programs/storm.c, in an order that is the same in every run, two at a time. Memory is the
recorder's resident set, read twice a second; `to obey` is the longest time in which it did not look whether it is to end;
the end is from the moment that was asked for to the end of the process. Fails if a stated bound is broken
(docs/DECISIONS.md, "What the recorder bounds").
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "programs" / "storm.c"
STORMS = ["deep", "brief", "maps", "maps-new", "children", "forks"]
EACH_SECONDS = 20
MOST_MEMORY_MIB = 512
LONGEST_WITHOUT_LOOK_MS = 2000


def resident_mib(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    return int(found[1]) / 1024 if found else 0.0


def pairs():
    """Pairs of storms without end; each storm is once in each round."""
    order = random.Random(7)
    while True:
        names = STORMS[:]
        order.shuffle(names)
        yield from zip(names[::2], names[1::2])


def main():
    programs = Path(sys.argv[1])
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 600
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        storm, file, said = folder / "storm", folder / "soak.icecore", folder / "said"
        subprocess.run(["cc", "-O2", "-pthread", "-o", storm, SOURCE], check=True)
        recorder = [programs / "icecore-record", "-a", "-F", "999", "-v", "-d", str(seconds), "-o", file]
        begin = time.monotonic()
        with open(said, "w") as stderr:
            child = subprocess.Popen(recorder, stderr=stderr)
        memory, running = [], []
        storms = pairs()
        while child.poll() is None and time.monotonic() < begin + seconds + 120:
            if not running and time.monotonic() < begin + seconds - EACH_SECONDS:
                names = next(storms)
                print(f"{time.monotonic() - begin:6.0f} s  {memory[-1] if memory else 0:6.1f} MiB  {' + '.join(names)}", flush=True)
                running = [subprocess.Popen([storm, name, str(EACH_SECONDS)], stdout=subprocess.DEVNULL) for name in names]
            running = [one for one in running if one.poll() is None]
            try:
                memory.append(resident_mib(child.pid))
            except FileNotFoundError:
                break
            time.sleep(0.5)
        for one in running:
            one.kill()
            one.wait()
        if child.wait(timeout=60) != 0:
            sys.exit(f"soak: the recorder failed: {said.read_text()}")
        after = time.monotonic() - begin - seconds
        info = json.loads(subprocess.run([programs / "icecore-report", "info", file, "--json"], check=True,
                                         capture_output=True).stdout)
        health = json.loads(subprocess.run([programs / "icecore-report", "health", file, "--json"],
                                           capture_output=True).stdout)
        receipt = info["receipt"]
        without_look, longest = (int(text) for text in re.search(
            r"without a look at whether to end was (\d+) ms, and the longest pass over the ring took (\d+) ms",
            said.read_text()).groups())
        peak = receipt["peak_rss_bytes"] / 2**20
        cpu = (receipt["user_cpu_ns"] + receipt["kernel_cpu_ns"]) / 1e9
        step = max(1, len(memory) // 4)
        quarters = [max(memory[at:at + step]) for at in range(0, 4 * step, step) if memory[at:at + step]]
        print(f"samples        {receipt['samples']:,}, lost {receipt['lost']:,}")
        print(f"lost by cause  {info['lost_by_cause']}")
        print(f"peak memory    {peak:.1f} MiB; by quarters {', '.join(f'{most:.0f}' for most in quarters)}")
        print(f"to obey        {without_look} ms at most until it looked whether to end")
        print(f"longest pass   {longest} ms over the ring, with what the tracker was waited for")
        print(f"to its end     {after:.1f} s after the {seconds} s that were asked for (with its start)")
        print(f"CPU            {cpu:.1f} s, {cpu / max(receipt['samples'], 1) * 1e6:.1f} µs per sample")
        print(f"verdict        {health['verdict']}: {'; '.join(health['problems'])}")
        print(f"named          {', '.join(health.get('mappings_refused_of', []))}")
        if peak > MOST_MEMORY_MIB or without_look > LONGEST_WITHOUT_LOOK_MS:
            sys.exit(f"soak: over a bound: {MOST_MEMORY_MIB} MiB, {LONGEST_WITHOUT_LOOK_MS} ms")


main()
