#!/usr/bin/env python3
"""How often `diff` calls chance a change, and how often it finds changes that are there.

usage: differences.py FOLDER-WITH-PROGRAMS [null|runs|power|all] [SECONDS]

null   the same program recorded twice, 40 pairs of different programs and rates, whole runs and windows into running
       programs: a pair counts as a false alarm if any function is called changed.
runs   programs that do the same work in each run, recorded again and again, and each run compared with the next: how often CPU time,
       wall time, any function, and a function that one side does not have is called changed; and a program that does 10 to 50 %
       more work.
power  a program with one function that is 3, 5, 10 and 20 % slower, each recorded for minutes at 99 and 999 Hz and cut
       into pieces of 10, 30 and 60 seconds: how often the function is found, beside what was stated to be detectable.
       Each is recorded for SECONDS (180).
"""

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECONDS = 5
PYTHON = f"""
import json, re, time, sys, hashlib
end = time.time() + {SECONDS}
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def sorts(): return sorted((x * 7919) % 10007 for x in range(3000))
while time.time() < end:
    fib(14); sorts(); json.loads(json.dumps(list(range(2000)))); re.findall('(a+)+b', 'a' * 13); hashlib.sha256(b'x' * 9999).digest()
"""
NODE = f"""
const end = Date.now() + {SECONDS * 1000};
const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2);
while (Date.now() < end) {{ fib(20); JSON.parse(JSON.stringify([...Array(2000).keys()])); 'a'.repeat(2000).split('').sort(); }}
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
PERL = f"my $e = time + {SECONDS}; while (time < $e) {{ my %h; $h{{$_ % 97}} .= $_ for 1..5000; join ',', sort keys %h; }}"
SQL = "with recursive c(x) as (select 1 union all select x + 1 from c where x < 600000) select sum(x * x % 7), count(distinct x % 1000) from c;"
RATES = [99, 499, 999, 1999]
PAIRS = 40


def workloads(folder):
    """Programs by name; those that are not installed are left out."""
    (folder / "p.py").write_text(PYTHON)
    (folder / "n.js").write_text(NODE)
    (folder / "c.cc").write_text(CXX)
    (folder / "data").write_bytes(b"".join(str(i * 7919 % 100003).encode() for i in range(6_000_000)))
    source = Path(__file__).parent.parent / "programs" / "work.c"
    subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-o", folder / "work", source], check=True)
    shell = lambda text: ["sh", "-c", text]
    all_of_them = {
        "work": [folder / "work", str(SECONDS), "100", "1"],
        "python3": ["python3", folder / "p.py"],
        "node": ["node", folder / "n.js"],
        "g++": shell(f"for i in 1 2 3; do g++ -O1 -c -o /dev/null {folder}/c.cc; done"),
        "xz": shell(f"xz -3 -c {folder}/data > /dev/null"),
        "zstd": shell(f"zstd -q -9 -c {folder}/data > /dev/null"),
        "perl": ["perl", "-e", PERL],
        "sort": shell(f"fold -w 9 {folder}/data | LC_ALL=C sort -S 200M | uniq -c | tail -1"),
        "sqlite3": shell(f"for i in 1 2 3; do sqlite3 :memory: '{SQL}'; done"),
        "openssl": shell(f"for i in 1 2; do openssl speed -seconds 2 sha256; done"),
        "shell": shell(f"i=0; while [ $i -lt 1500 ]; do /bin/true; i=$((i+1)); done"),
    }
    found = lambda command: subprocess.run(["sh", "-c", f"command -v {command[0]}"], stdout=subprocess.DEVNULL).returncode == 0
    return {name: command for name, command in all_of_them.items() if found(command) and (
        name not in ("xz", "zstd", "sqlite3", "openssl", "g++") or found([name]))}


def record(programs, output, options, command=()):
    command = ["--", *command] if command else []
    subprocess.run([programs / "icecore-record", "-q", "--force", "-o", output, *options, *command],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def diff(programs, before, after, *options):
    text = subprocess.run([programs / "icecore-report", "diff", "--json", "-q", *options, before, after],
                          check=True, stdout=subprocess.PIPE).stdout
    return json.loads(text)


def null(programs, folder, pairs):
    """Records pairs and counts those of which any row is called changed."""
    mixes = itertools.cycle(workloads(folder).items())
    alarms = {"self": [], "total": []}
    for pair in range(pairs):
        name, command = next(mixes)
        rates = RATES[pair % 4], RATES[(pair + pair // 4) % 4]
        files = [folder / f"{pair}{side}.icecore" for side in "ab"]
        for file, rate in zip(files, rates):
            # Some are a window into a program that goes on.
            if pair % 2 and command[0] != "sh":
                running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(0.3)
                record(programs, file, ["-F", str(rate), "-p", str(running.pid), "-d", str(SECONDS * 0.7)])
                running.wait()
            else:
                record(programs, file, ["-F", str(rate)], command)
        line = []
        for sort, seen in alarms.items():
            found = diff(programs, *files, "--sort", sort)
            changed = [row["name"] for row in found["rows"] if row["significant"]]
            seen.append(bool(changed))
            line.append(f"{sort} {len(changed)} of {found['tested']} (×{found['noise']['widened']:.2f})")
            line.extend(changed[:3])
        print(f"{pair:3} {name:8} {rates[0]:5} {rates[1]:5} Hz  {'  '.join(line)}", flush=True)
    for sort, seen in alarms.items():
        print(f"{sort}: false alarms in {sum(seen)} of {len(seen)} pairs; the stated rate is 5 %")


LOOP = """
import json, re, sys
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
for _ in range(int(sys.argv[1])):
    fib(16); sorted((x * 7919) % 10007 for x in range(3000)); json.loads(json.dumps(list(range(2000)))); re.findall('(a+)+b', 'a' * 13)
"""
# Runs of each program.
RUNS = 9


def runs(programs, folder):
    """Compares each run of programs with the next one, and those of a program with a run that does more."""
    workloads(folder)
    (folder / "l.py").write_text(LOOP)
    python = lambda rounds: ["python3", folder / "l.py", str(rounds)]
    fixed = {
        "python3": python(600),
        "brief": python(60),
        "g++": ["g++", "-O2", "-c", "-o", "/dev/null", folder / "c.cc"],
        "git": ["git", "-C", Path(__file__).parent, "log", "--stat", "-n", "400"],
        "perl": ["perl", "-e", "my %h; for (1..12) { $h{$_ % 97} .= $_ for 1..90000; join ',', sort keys %h; }"],
        "sort": ["sh", "-c", f"head -c 20000000 {folder}/data | fold -w 9 | LC_ALL=C sort | uniq -c | tail -1"],
        "xz": ["sh", "-c", f"head -c 8000000 {folder}/data | xz -2 -c > /dev/null"],
    }
    seen = {"cpu": [], "wall": [], "functions": [], "new or gone": []}

    def tell(name, files):
        found = diff(programs, *files, "--all")
        rows = [row for row in found["rows"] if row["significant"]]
        lone = [row["name"] for row in rows if row["status"] in ("added", "removed")]
        told = [found["cpu_time"]["significant"], found["wall_time"]["significant"], bool(rows), bool(lone)]
        cpu, wall = [(it["after"] / it["before"] - 1) * 100 for it in (found["cpu_time"], found["wall_time"])]
        print(f"{name:22} {found['cpu_time']['before']:6.3f} s cpu {cpu:+6.1f} % {told[0]:d}  wall {wall:+6.1f} % {told[1]:d}  "
              f"functions {len(rows)} of {found['tested']}, new or gone {len(lone)} {' '.join(lone[:3])}", flush=True)
        return told

    for rate in (99, 999):
        for name, command in fixed.items():
            files = [folder / f"{name}-{rate}-{run}.icecore" for run in range(RUNS)]
            for file in files:
                record(programs, file, ["-F", str(rate)], command)
            for pair in itertools.pairwise(files):
                for which, is_told in zip(seen.values(), tell(f"{name} {rate} Hz", pair)):
                    which.append(is_told)
    for which, told in seen.items():
        print(f"{which}: false alarms in {sum(told)} of {len(told)} pairs")
    for percent in (10, 25, 50):
        told = []
        for run in range(4):
            files = [folder / f"{side}.icecore" for side in "ab"]
            for file, rounds in zip(files, (600, 600 + 6 * percent)):
                record(programs, file, ["-F", "99"], python(rounds))
            told.append(tell(f"{percent} % more", files)[0])
        print(f"{percent} % more: CPU time is found changed in {sum(told)} of {len(told)} pairs")


def power(programs, folder, length):
    """Records the program at every speed and rate, and compares all pieces of each length with as many of the usual speed."""
    work = workloads(folder)["work"][0]
    pieces = {}
    for percent in [100, 103, 105, 110, 120]:
        running = subprocess.Popen([work, str(length + 8), str(percent), "7"])
        recorders = []
        for rate in [99, 999]:
            file = folder / f"{percent}-{rate}.icecore"
            recorders.append(subprocess.Popen([programs / "icecore-record", "-q", "--force", "-o", file, "-F", str(rate),
                                               "-p", str(running.pid), "-d", str(length + 2)]))
            pieces[percent, rate] = file
        for process in [*recorders, running]:
            process.wait()
    print("slower   Hz  seconds  pieces  share   change   detectable  found")
    for (percent, rate), file in sorted(pieces.items(), key=lambda item: (item[0][1], item[0][0])):
        for seconds in [it for it in [10, 30, 60] if it * 2 <= length]:
            found = []
            for begin in range(0, length, seconds):
                sides = []
                for name, whole in [("b", pieces[100, rate]), ("a", file)]:
                    # Equal pieces would be no pair.
                    at = (begin + seconds) % length if name == "b" else begin
                    cut = folder / f"{name}.icecore"
                    subprocess.run([programs / "icecore-report", "cut", "-q", "--force", whole, "-o", cut, "--from", str(at), "--to", str(at + seconds)],
                                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    sides.append(cut)
                rows = diff(programs, *sides)["rows"]
                found.append(next(row for row in rows if row["name"] == "compresses"))
            mean = lambda key: statistics.mean(row[key] for row in found)
            hits = sum(row["significant"] and row["delta"] > 0 for row in found)
            print(f"{percent - 100:5} % {rate:5} {seconds:7} {len(found):7}  {mean('before'):.3f}  {mean('delta'):+.4f}  {mean('detectable'):10.4f}  "
                  f"{hits / len(found):5.2f}", flush=True)


def main():
    programs = Path(sys.argv[1]).resolve()
    what = sys.argv[2] if len(sys.argv) > 2 else "all"
    with tempfile.TemporaryDirectory() as folder:
        if what in ("null", "all"):
            null(programs, Path(folder), PAIRS)
        if what in ("runs", "all"):
            runs(programs, Path(folder))
        if what in ("power", "all"):
            power(programs, Path(folder), int(sys.argv[3]) if len(sys.argv) > 3 else 180)


if __name__ == "__main__":
    main()
