#!/usr/bin/env python3
"""What it costs to follow a recording: the CPU time of `icecore-report tui --follow` beside that of the recorder, at 99 Hz on the whole
machine, while four processes work.

usage: follow.py DIRECTORY_OF_PROGRAMS [SECONDS]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main():
    programs, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 70
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.icecore"
        work = subprocess.Popen([sys.executable, HERE / "service.py", str(seconds + 10)])
        record = [programs / "icecore-record", "-q", "-a", "-F", "99", "-d", str(seconds + 5), "-o", path]
        recorder = subprocess.Popen(record)
        while not (path.exists() and path.stat().st_size > 1000):
            time.sleep(0.1)
        follow = [programs / "icecore-report", "tui", "--follow", "--json", path]
        with open(pathlib.Path(folder) / "lines", "w+") as lines:
            follower = subprocess.Popen(follow, stdout=lines)
            begun, at = time.monotonic(), []
            while time.monotonic() - begun < seconds:
                time.sleep(10)
                at.append((time.monotonic() - begun, cpu_s(follower.pid)))
            memory, of_recorder = peak_mib(follower.pid), cpu_s(recorder.pid)
            recorder.wait()
            follower.wait()
            work.wait()
            lines.seek(0)
            documents = [json.loads(line) for line in lines]
        named = [row for row in documents[-1]["rows"] if row["reason"] is None]
        print(f"follow, {at[-1][0]:.0f} s at 99 Hz, {os.cpu_count()} CPUs, {path.stat().st_size / 1e6:.1f} MB recorded, "
              f"{len(documents)} tables, {len(named)} of the last {len(documents[-1]['rows'])} rows named")
        print("% of a CPU, by ten seconds:", " ".join(
            f"{100 * (b[1] - a[1]) / (b[0] - a[0]):.1f}" for a, b in zip([(0, 0), *at], at)))
        print(f"% of a CPU: {100 * at[-1][1] / at[-1][0]:.2f}; memory {memory:.0f} MiB; the recorder takes "
              f"{100 * of_recorder / at[-1][0]:.2f}")


if __name__ == "__main__":
    main()
