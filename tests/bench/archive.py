#!/usr/bin/env python3
"""What an archive takes: bytes of each recording, beside compact files and pprof, and the time of its commands over ten thousand recordings.

usage: archive.py FOLDER-WITH-PROGRAMS

Bytes: five recordings of each of two real programs, one with many names (a C++ compiler) and one with few (xz). `compact` is `pack`, then
`compact`, as `archive add` does; `pprof` is a profile of the same stacks by the names of functions, without addresses and mappings, by
gzip -9. Times: a made-up fleet of 162 hosts over 62 nights; medians of five runs, the files in memory. Needs root for the recorder.
"""

import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECORDINGS, RUNS = 5, 5
DAYS, HOSTS, SAMPLES = 62, 81, 150
SOURCE = """
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
int main(int n, char **v) { std::map<std::string, int> m; std::regex r(v[0]); for (auto &it : m) std::cout << it.first << n; std::sort(v, v + n); }
"""


def run(*command):
    """What a program prints; what it says besides only if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} {command[1]}: {done.stderr}")
    return done.stdout


def number(value):
    """A number as protobuf stores it."""
    out = b""
    while True:
        value, low = value >> 7, value & 0x7f
        out += bytes([low | (0x80 if value else 0)])
        if not value:
            return out


def field(at, value):
    if isinstance(value, int):
        return number(at << 3) + number(value)
    return number(at << 3 | 2) + number(len(value)) + value


def pprof(report, recording):
    """The bytes of a profile of the same stacks: samples, locations, functions and strings, as profile.proto numbers them."""
    stacks = json.loads(run(report, "folded", recording, "--json"))["stacks"]
    texts = {"": 0}
    functions, out = {}, b""
    text = lambda name: texts.setdefault(name, len(texts))
    out += field(1, field(1, text("samples")) + field(2, text("count")))
    out += field(1, field(1, text("cpu")) + field(2, text("nanoseconds")))
    for stack in stacks:
        ids = [functions.setdefault(frame, len(functions) + 1) for frame in reversed(stack["frames"])]
        values = number(stack["samples"]) + number(stack["weight"])
        out += field(2, field(1, b"".join(map(number, ids))) + field(2, values))
    for name, position in functions.items():
        out += field(4, field(1, position) + field(4, field(1, position)))
        out += field(5, field(1, position) + field(2, text(name)))
    for name in texts:
        out += field(6, name.encode())
    return len(gzip.compress(out, 9))


def size(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def bytes_of(programs, folder, name, command):
    record, report = programs / "icecore-record", programs / "icecore-report"
    files = [folder / f"{name}-{number}.icecore" for number in range(RECORDINGS)]
    for file in files:
        run(record, "-F", "999", "-q", "-o", file, "--", *command)
    compact, archive = folder / f"{name}.compact", folder / f"{name}.archive"
    compact.mkdir()
    samples, profiles = 0, 0
    for file in files:
        packed = folder / "packed"
        run(report, "pack", file, "-o", packed, "--force", "-q")
        run(report, "compact", packed, "-o", compact / file.name, "-q")
        samples += json.loads(run(report, "summary", file, "--json"))["samples"]
        profiles += pprof(report, compact / file.name)
    run(report, "archive", archive, "add", *files)
    run(report, "archive", archive, "compact")
    stored, names = size(archive / "recordings"), size(archive / "names")
    tables = size(archive) - stored - names
    each = lambda value: f"{value / RECORDINGS / 1024:9.1f}"
    print(f"{name:<10} {samples // RECORDINGS:>8,} {each(sum(map(size_of, files)))} {each(size(compact))} {each(profiles)}"
          f" {each(stored)} {each(names)} {each(tables)} {(stored + names) / size(compact):9.2f}")


def size_of(path):
    return path.stat().st_size


def median_ms(*command):
    taken = []
    for _ in range(RUNS):
        begun = time.monotonic()
        run(*command)
        taken.append(time.monotonic() - begun)
    return statistics.median(taken) * 1000


def fleet(programs, folder):
    report, archive = programs / "icecore-report", folder / "archive"
    run(programs / "synthesize", "fleet", folder / "fleet", DAYS, HOSTS, SAMPLES)
    # What was written before would be written while `add` syncs.
    os.sync()
    begun = time.monotonic()
    added = json.loads(run(report, "archive", archive, "add", folder / "fleet", "--json"))["added"]
    seconds = time.monotonic() - begun
    print(f"fleet: {len(added):,} recordings of {SAMPLES} samples, {DAYS} nights")
    print(f"  add               {len(added) / seconds:8.0f} recordings a second")
    begun = time.monotonic()
    files = json.loads(run(report, "archive", archive, "compact", "--json"))
    print(f"  compact           {time.monotonic() - begun:8.1f} s, {files['files_before']:,} files before, {files['files_after']:,} after")
    outside = size(archive / "recordings") + size(archive / "names")
    print(f"  bytes             {size(archive) / len(added):8.0f} a recording, of these {outside / len(added):.0f} outside tables")
    for words in ["list", "list host=web-07", "search --function crc32", "trend --by night", "trend --by quality", "outliers",
                  "regressions", "diff host=web-07 host=web-08"]:
        print(f"  {words:<30} {median_ms(report, 'archive', archive, *words.split()):8.0f} ms")


def main():
    programs = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "a.cpp").write_text(SOURCE)
        data = folder / "data"
        shutil.copyfile(programs / "icecore-report", data)
        print(f"{'KiB each':<10} {'samples':>8} {'recorded':>9} {'compact':>9} {'pprof':>9} {'archive':>9} {'names':>9} {'tables':>9} {'ratio':>9}")
        bytes_of(programs, folder, "clang", ["clang++", "-O2", "-c", folder / "a.cpp", "-o", "/dev/null"])
        bytes_of(programs, folder, "xz", ["sh", "-c", f"xz -9 -k -c -T1 {data} > /dev/null"])
        fleet(programs, folder)


main()
