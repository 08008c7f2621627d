#!/usr/bin/env python3
"""What whole stacks of programs without frame pointers cost, with icecore-record and with perf record, and how many are whole.

usage: stacks.py FOLDER-WITH-PROGRAMS

Workloads are the distribution's own programs: a compiler run and python3, both without frame pointers on Debian. perf
copies 16 KiB of stack with every sample. Whole is a user stack that ends at the start of a program or thread.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import RATE, measured

COMPILED = """
#include <map>
#include <regex>
#include <string>
int main() {
    std::map<std::string, int> counts;
    for (auto text : {"abd", "acd", "ad"})
        counts[text] += std::regex_match(text, std::regex("a(b|c)*d"));
    return counts.size();
}
"""
INTERPRETED = """
import json, re, time
end = time.time() + 8
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
while time.time() < end:
    fib(16); json.loads(json.dumps(list(range(2000)))); re.findall('(a+)+b', 'a' * 14)
"""


def report(program, *arguments):
    """A view as JSON."""
    return json.loads(subprocess.run([program, *arguments, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def icecore(programs, folder, mode, command):
    """Records with one mode; returns a row."""
    file = folder / "r.icecore"
    recorder = [programs / "icecore-record", "-F", RATE, "-q", "--force", "--unwind", mode, "--embed", "none", "-o", file]
    subprocess.run([*recorder, "--", *command], check=True, stdout=subprocess.DEVNULL)
    info = report(programs / "icecore-report", "info", file)
    receipt = info["receipt"]
    health = report(programs / "icecore-report", "health", file, "--no-cache")
    seconds = measured([programs / "icecore-report", "health", file, "--no-cache"])["seconds"]
    samples = receipt["samples"]
    cpu = receipt["user_cpu_ns"] + receipt["kernel_cpu_ns"]
    return [samples, receipt["lost"], file.stat().st_size / samples, cpu / samples / 1000,
            receipt["bpf_ns"] / max(receipt["bpf_runs"], 1) / 1000, health["rooted_share"], seconds]


def perf(folder, command):
    """Records with perf; returns a row. perf tells neither what it costs nor which stacks are whole."""
    data = folder / "perf.data"
    recorder = ["perf", "record", "-q", "-F", RATE, "-e", "cpu-clock", "--call-graph", "dwarf,16384", "-o", data]
    subprocess.run([*recorder, "--", *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    script = ["perf", "script", "--no-inline", "-i", data, "-F", "comm,ip,sym"]
    run = measured(script)
    text = subprocess.run(script, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    stacks = [stack.splitlines() for stack in text.split("\n\n") if stack.strip()]
    ends = ("_start", "clone3", "__libc_start_main", "start_thread")
    whole = sum(any(end in stack[-1] for end in ends) for stack in stacks)
    samples = len(stacks)
    return [samples, None, data.stat().st_size / samples, None, None, whole / samples, run["seconds"]]


def main():
    programs = Path(sys.argv[1]).resolve()
    os.environ["XDG_CACHE_HOME"] = tempfile.gettempdir()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        source = folder / "x.cpp"
        source.write_text(COMPILED)
        script = folder / "x.py"
        script.write_text(INTERPRETED)
        workloads = {
            "g++ -O2": ["sh", "-c", f"for i in 1 2; do g++ -O2 -c {source} -o {folder}/x.o; done"],
            "python3": ["/usr/bin/python3", str(script)],
        }
        head = f"{'':<22}{'samples':>9}{'lost':>7}{'B/sample':>10}{'CPU µs':>8}{'BPF µs':>8}{'whole':>8}{'read s':>8}"
        for name, command in workloads.items():
            print(f"{name} at {RATE} Hz\n{head}")
            rows = {f"icecore {mode}": icecore(programs, folder, mode, command) for mode in ("fp", "auto", "dwarf")}
            rows["perf dwarf,16384"] = perf(folder, command)
            for label, (samples, lost, size, cpu, bpf, whole, seconds) in rows.items():
                cell = lambda value, form: "" if value is None else format(value, form)
                print(f"{label:<22}{samples:>9}{cell(lost, 'd'):>7}{size:>10.0f}{cell(cpu, '.1f'):>8}{cell(bpf, '.1f'):>8}{whole:>8.1%}{seconds:>8.2f}")
            print(flush=True)
        print("CPU: of the recorder, per sample; BPF: inside the sampled programs, per sample; whole: user stacks that reach the start of a")
        print("program or thread; read: health, perf script. Files are without names of functions (--embed none)")


if __name__ == "__main__":
    main()
