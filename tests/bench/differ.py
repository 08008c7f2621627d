#!/usr/bin/env python3
"""Unwinds the same stacks by `perf script` and by icecore-report, and tells where they differ, and what each takes.

usage: differ.py FOLDER-WITH-PROGRAMS [--keep FOLDER] [WORKLOAD...]

perf record copies registers and 16 KiB of stack of real programs; the file is imported. Stacks of user space are compared
address by address (offset in the file, without inlined functions). perf tells return addresses one byte too low; that is no
difference. A class of differences is told with the frame in front of the first one that differs.

  equal      the same frames
  longer     icecore has perf's frames, and more behind them
  shorter    perf has icecore's frames, and more behind them
  other      they part at a frame that both have

Who is right is told by the bytes in front of the first frame that differs: whether there is a call, and of what (calls.py).
"""

import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from calls import call
from compare import measured

RECORD = ["perf", "record", "-q", "--buildid-mmap", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf,16384"]
POSTGRES = Path("/usr/lib/postgresql")
COMPILER = subprocess.run(["g++", "-print-prog-name=cc1plus"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
PYTHON = """
import collections, json, re, time
end = time.time() + 6
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
while time.time() < end:
    fib(16); json.loads(json.dumps(list(range(2000)))); re.findall('(a+)+b', 'a' * 14)
    collections.Counter(str(i % 7) for i in range(500)); sorted(range(500), key=lambda i: i * 7919 % 997)
"""
NODE = """
const end = Date.now() + 6000;
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
while (Date.now() < end) {
  fib(20); JSON.parse(JSON.stringify([...Array(2000).keys()])); 'x'.repeat(3000).replace(/x+y/g, '');
  new Map([...Array(500).keys()].map(i => [i, {i}])); [..."hello".repeat(99)].sort();
}
"""
CXX = """
#include <map>
#include <regex>
#include <string>
int main() {
    std::map<std::string, int> counts;
    for (auto text : {"abd", "acd", "ad"}) counts[text] += std::regex_match(text, std::regex("a(b|c)*d"));
    return counts.size();
}
"""
RUST = """
use std::collections::{BTreeMap, HashMap};
fn main() {
    let mut all: HashMap<String, BTreeMap<u64, Vec<String>>> = HashMap::new();
    for i in 0..9u64 { all.entry(format!("{i}")).or_default().entry(i * 3).or_default().push(i.to_string()); }
    let flat: Vec<_> = all.iter().flat_map(|(k, v)| v.iter().map(move |(a, b)| (k.clone(), *a, b.join(",")))).collect();
    println!("{flat:?}");
}
"""


def record(data, *command):
    """Records a command."""
    subprocess.run([*RECORD, "-o", data, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def source(folder, name, text):
    """Writes a file of the workload."""
    path = folder / name
    path.write_text(text)
    return str(path)


def record_git(folder, data):
    """A history, made of commits to many files, cloned, shown and packed."""
    stream = ["blob\nmark :1\ndata 2\nx\n"]
    for number in range(1, 1500):
        files = "".join(f"M 100644 inline d{i % 40}/f{i}\ndata <<.\n{number} {i}\n" * 1 + "." + "\n" for i in range(number % 17, 400, 17))
        stream.append(f"commit refs/heads/main\ncommitter a <a@b> {1700000000 + number} +0000\ndata 1\nx\n{files}\n")
    source(folder, "history", "".join(stream))
    steps = ("git init -q -b main h && git -C h fast-import --quiet < history && git clone -q --no-local h c"
             " && git -C c log -p --stat > log && git -C c gc -q --aggressive && git -C c blame d1/f1 > blame")
    record(data, "sh", "-c", f"cd {folder} && {steps}")


def record_postgres(_, data):
    """Backends of a cluster of its own, under pgbench, in a folder that their user can reach."""
    binaries = max(POSTGRES.iterdir()) / "bin"
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    subprocess.run(["chown", "postgres", home], check=True)
    user = ["runuser", "-u", "postgres", "--"]
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
    subprocess.run([*user, binaries / "initdb", "-D", home / "d", "-U", "postgres"], **quiet)
    control = [*user, binaries / "pg_ctl", "-D", home / "d", "-w", "-l", home / "log"]
    subprocess.run([*control, "-o", f"-c listen_addresses= -k {home}", "start"], **quiet)
    try:
        client = ["-h", str(home), "-U", "postgres", "postgres"]
        subprocess.run([binaries / "pgbench", "-i", "-q", "-s", "5", *client], **quiet)
        bench = subprocess.Popen([binaries / "pgbench", "-n", "-T", "8", "-c", "2", *client],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        main = (home / "d/postmaster.pid").read_text().split()[0]
        backends = subprocess.run(["pgrep", "-d,", "-P", main], check=True, stdout=subprocess.PIPE, text=True).stdout
        record(data, "-p", backends.strip(), "--", "sleep", "5")
        bench.wait()
    finally:
        subprocess.run([*control, "stop"], **quiet)
        shutil.rmtree(home)


WORKLOADS = {
    "python3": lambda folder, data: record(data, "/usr/bin/python3", source(folder, "w.py", PYTHON)),
    "node": lambda folder, data: record(data, "node", source(folder, "w.js", NODE)),
    "g++": lambda folder, data: record(
        data, "sh", "-c", f"for i in 1 2; do g++ -O2 -c {source(folder, 'w.cpp', CXX)} -o {folder}/w.o; done"),
    "rustc": lambda folder, data: record(
        data, "sh", "-c", f"for i in 1 2 3 4; do rustc -O --edition 2021 {source(folder, 'w.rs', RUST)} -o {folder}/w; done"),
    "git": record_git,
    "postgres": record_postgres,
    # Started by perf itself, for which perf finds all unwind tables.
    "cc1plus": lambda folder, data: record(
        data, "-F", "4999", "--", COMPILER, "-quiet", "-O2", "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE",
        source(folder, "w.cpp", CXX), "-o", "/dev/null"),
}


def of_perf(data):
    """User stacks as perf unwinds them: by thread, in the order of time, leaf first: (offset, image)."""
    # Times of several CPUs are in order, and the kernel's frames are told by their addresses.
    script = ["perf", "script", "-i", data, "--no-inline", "--ns", "--max-stack", "4096", "-F", "tid,time,ip,dso"]
    text = subprocess.run(script, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode(errors="replace")
    stacks = collections.defaultdict(list)
    for sample in text.split("\n\n"):
        head, *frames = sample.strip("\n").split("\n")
        if not head.strip():
            continue
        tid, moment = head.split()[:2]
        seconds, fraction = moment.rstrip(":").split(".")
        rows = [line.strip().partition(" ") for line in frames]
        rows = [(int(address, 16), image.strip("()")) for address, _, image in rows]
        user = [row for row in rows if not (row[1].startswith("[kernel") or row[1].startswith("bpf_prog") or row[0] >> 63)]
        stacks[int(tid)].append((int(seconds) * 10**9 + int(fraction), user))
    for rows in stacks.values():
        rows.sort(key=lambda row: row[0])
    return stacks


def of_icecore(report, recording):
    """The same as icecore-report unwinds them; and how they end."""
    lines = subprocess.run([report, "samples", recording, "--json", "--no-cache"], check=True, stdout=subprocess.PIPE).stdout
    stacks = collections.defaultdict(list)
    for sample in map(json.loads, lines.splitlines()):
        frames = [frame for frame in sample["frames"] if frame["side"] == "user" and not frame["inlined"]]
        rows = [(frame["address"] if frame["offset"] is None else frame["offset"], frame["image"], frame["name"])
                for frame in frames]
        stacks[sample["tid"]].append((sample["time_ns"], rows, sample["ended"]))
    for rows in stacks.values():
        rows.sort(key=lambda row: row[0])
    return stacks


def is_equal(own, perf, at):
    """Tells whether two frames are the same: of callers, perf may tell the byte in front of the return address."""
    return own[0] == perf[0] or (at > 0 and own[0] == perf[0] + 1)


def compare(own, perf):
    """The class of two stacks, and how many frames they have in common."""
    same = 0
    while same < min(len(own), len(perf)) and is_equal(own[same], perf[same], same):
        same += 1
    if same == len(own) == len(perf):
        return "equal", same
    return ("longer" if same == len(perf) else "shorter" if same == len(own) else "other"), same


def place(frame):
    """A frame as text."""
    image = Path(frame[1] or "?").name
    return f"{image}+{frame[0]:#x}" + (f" {frame[2]}" if len(frame) > 2 and frame[2] else "")


def verdict(stack, at, add):
    """What stands in front of the return address of a frame; `ends` if there is no such frame."""
    if at >= len(stack):
        return "ends"
    return call((stack[at][0] + add, stack[at][1]), stack[at - 1]) if at > 0 else "leaf"


def differences(own, perf):
    """Counts classes, and differences by what stands at the first frame that differs, each with an example."""
    classes, causes, examples = collections.Counter(), collections.Counter(), {}
    for tid, stacks in perf.items():
        if len(stacks) != len(own[tid]):
            print(f"  thread {tid}: perf tells {len(stacks)} samples, icecore {len(own[tid])}")
            continue
        for (_, theirs), (_, ours, ended) in zip(stacks, own[tid]):
            if not ours and not theirs:
                continue
            kind, same = compare(ours, theirs)
            classes[kind] += 1
            if kind != "equal":
                cause = (kind, verdict(ours, same, 0), verdict(theirs, same, 1))
                causes[cause] += 1
                examples.setdefault(cause, []).append((ours, theirs, same, ended))
    return classes, causes, examples


def show(causes, examples):
    """Prints the differences, and of each the two most frequent places."""
    for cause, count in causes.most_common():
        kind, own, perf = cause
        print(f"  {count:>6} {kind}: icecore's next frame {own!r}, perf's {perf!r}")
        places = collections.Counter((Path(ours[same - 1][1] or "?").name, ended) for ours, _, same, ended in examples[cause])
        print("           behind " + ", ".join(f"{image} {count} ({ended})" for (image, ended), count in places.most_common(5)))
        for ours, theirs, same, _ in examples[cause][:2]:
            print(f"           icecore  {' < '.join(place(f)[:60] for f in ours[max(same - 1, 0):same + 3])} … {len(ours)} frames")
            print(f"           perf     {' < '.join(place(f)[:60] for f in theirs[max(same - 1, 0):same + 3])} … {len(theirs)} frames")


def main():
    arguments = sys.argv[1:]
    programs = Path(arguments.pop(0)).resolve()
    kept = Path(arguments.pop(arguments.index("--keep") + 1)) if "--keep" in arguments else None
    names = [name for name in arguments if name != "--keep"] or list(WORKLOADS)
    os.environ["XDG_CACHE_HOME"] = tempfile.gettempdir()
    report = programs / "icecore-report"
    table = [f"{'':<10}{'samples':>8}{'equal':>8}{'longer':>8}{'shorter':>9}{'other':>7}{'perf s':>8}{'import s':>10}{'unwind s':>10}"]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            home = Path(folder) / name
            home.mkdir()
            data = (kept or home) / f"{name}.data"
            if not data.exists():
                WORKLOADS[name](home, data)
            recording = home / "r.icecore"
            imported = measured([report, "import", data, "-o", recording, "-q"])["seconds"]
            classes, causes, examples = differences(of_icecore(report, recording), of_perf(data))
            print(name)
            show(causes, examples)
            perf = measured(["perf", "script", "-i", data, "--no-inline", "--max-stack", "4096", "-F", "ip"])["seconds"]
            health = measured([report, "health", recording, "--no-cache", "-q"])["seconds"]
            total = sum(classes.values())
            row = "".join(f"{classes[kind]:>{width}}" for kind, width in [("equal", 8), ("longer", 8), ("shorter", 9), ("other", 7)])
            table.append(f"{name:<10}{total:>8}{row}{perf:>8.2f}{imported:>10.2f}{health:>10.2f}")
    print("\n" + "\n".join(table))


if __name__ == "__main__":
    main()
