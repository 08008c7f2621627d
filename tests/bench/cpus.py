#!/usr/bin/env python3
"""Measures what each CPU costs the recorder, and says what 256 of them would.

usage: cpus.py FOLDER-WITH-PROGRAMS [CPUS] [HZ]     (256 and 99 by default)

Measured here: descriptors and memory with one CPU and with all, CPU time of each thread of the recorder per sample while
tests/workload.sh runs again and again, bytes of the ring per sample, the sampler's own time, and what a record of the ring
costs alone and while another CPU sends records as well. Computed from it: the rest. docs/DECISIONS.md, "Hundreds of
CPUs", says what follows.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 20
# Loading programs and looking at what is there is over by then.
BEGUN = 4
RECORDS = 400_000


def threads(pid):
    """CPU time of each thread by its name, s."""
    used = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, stat = (task / "comm").read_text().strip(), (task / "schedstat").read_text()
        except OSError:
            continue
        used[name] = used.get(name, 0) + int(stat.split()[0]) / 1e9
    return used


def descriptors(pid):
    """Open events, programs and maps; files of recorded programs, which are held as long as they may be needed."""
    links = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
    own = sum(link.startswith("anon_inode:") for link in links)
    return own, len(links) - own


def recorded(programs, file, options, seconds):
    """Records, and returns descriptors, CPU time of threads once all has begun, resident MiB and what `info` tells."""
    command = [programs / "icecore-record", "-q", "--force", "-o", file, *options]
    with subprocess.Popen(command) as child:
        time.sleep(BEGUN)
        before = threads(child.pid)
        time.sleep(seconds)
        used = {name: time - before.get(name, 0) for name, time in threads(child.pid).items()}
        open_files = descriptors(child.pid)
        resident = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text())[1]) / 1024
        child.terminate()
    report = subprocess.run([programs / "icecore-report", "info", file, "--json"], check=True, capture_output=True)
    return open_files, used, resident, json.loads(report.stdout)


class Busy:
    """Runs the workload again and again on all CPUs."""

    def __init__(self, folder):
        self.over = False
        self.threads = [threading.Thread(target=self.work, args=(folder / f"work{n}",)) for n in range(os.cpu_count())]

    def work(self, folder):
        while not self.over:
            subprocess.run([HERE.parent / "workload.sh", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.over = True
        for thread in self.threads:
            thread.join()


def ring_ns(folder):
    """Nanoseconds of a record: one CPU alone, and each of all CPUs at once."""
    headers = folder / "headers"
    (headers / "bpf").mkdir(parents=True)
    found = subprocess.run(["cargo", "metadata", "--format-version", "1", "--locked"], check=True, capture_output=True)
    package = next(it for it in json.loads(found.stdout)["packages"] if it["name"] == "libbpf-sys")
    for header in (Path(package["manifest_path"]).parent / "libbpf" / "src").glob("bpf*.h"):
        (headers / "bpf" / header.name).write_bytes(header.read_bytes())
    built, data, pinned = folder / "ring.o", folder / "data", Path("/sys/fs/bpf") / f"icecore-bench-{os.getpid()}"
    machine = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", "-I", headers, machine, "-c", HERE / "ring.bpf.c", "-o", built], check=True)
    data.write_bytes(bytes(64))

    def start(name, cpu):
        command = ["taskset", "-c", str(cpu), "bpftool", "prog", "run", "pinned", pinned / name, "data_in", data,
                   "repeat", str(RECORDS)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def mean(name, cpus):
        """The mean of runs on several CPUs at once."""
        outputs = [run.communicate()[0] for run in [start(name, cpu) for cpu in cpus]]
        assert all("Return value: 0" in text for text in outputs), outputs
        return sum(int(re.search(r"average\): (\d+)ns", text)[1]) for text in outputs) / len(outputs)

    def measured(cpus):
        subprocess.run(["bpftool", "prog", "loadall", built, pinned], check=True)
        try:
            return mean("put", cpus) - mean("nothing", cpus)
        finally:
            for name in ("put", "nothing"):
                (pinned / name).unlink()
            pinned.rmdir()

    return measured([0]), measured(range(min(os.cpu_count(), 3)))


def main():
    programs = Path(sys.argv[1]).resolve()
    cpus = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    hz = int(sys.argv[3]) if len(sys.argv) > 3 else 99
    os.environ["PATH"] += ":/usr/sbin"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        file = folder / "cpus.icecore"
        with Busy(folder):
            (one, _), *_ = recorded(programs, file, ["-a", "-F", str(hz), "-C", "0", "--ring", "16M"], 1)
            (own, held), used, resident, info = recorded(programs, file, ["-a", "-F", str(hz), "--ring", "16M"], SECONDS)
        alone, together = ring_ns(folder)
    here, receipt = os.cpu_count(), info["receipt"]
    seconds = (receipt["end_ns"] - info["session"]["start_ns"]) / 1e9
    samples = receipt["samples"] / seconds * SECONDS
    rate = cpus * hz
    # Mappings are watched on all CPUs, whichever are sampled.
    per_cpu = (own - one) / max(here - 1, 1) + 1
    print(f"measured on {here} CPUs at {hz} Hz, {receipt['samples'] / seconds:.0f} samples per second")
    print(f"descriptors            {own}, {per_cpu:.0f} per CPU; with {cpus}: {own + (cpus - here) * per_cpu:.0f}; "
          f"besides, {held} files of programs")
    print(f"queues of mappings     0.25 MiB per CPU; with {cpus}: {cpus / 4:.0f} MiB")
    print(f"sampler                {receipt['bpf_ns'] / max(receipt['bpf_runs'], 1) / 1000:.1f} µs per run: "
          f"{receipt['bpf_ns'] / max(receipt['bpf_runs'], 1) * hz / 1e7:.2f} % of each CPU")
    print(f"record of the ring     {alone:.0f} ns, {together:.0f} ns with another CPU beside it")
    for name, seconds in sorted(used.items()):
        each = seconds / samples * 1e6
        print(f"thread {name:<16}{each:6.1f} µs per sample; with {cpus}: {each * rate / 1e6:.2f} CPUs")
    print(f"resident memory        {resident:.0f} MiB")
    print(f"samples per second     with {cpus}: {rate:,}")


main()
