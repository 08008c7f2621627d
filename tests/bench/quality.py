#!/usr/bin/env python3
"""Records 22 real programs, and prints how good their stacks are, beside perf.

usage: quality.py FOLDER-WITH-PROGRAMS [PROGRAM...]

icecore, by `health --json` of a recording with the default options:
  rooted      user stacks whose outermost frame is a proven start
  incomplete  all others
  guessed     user stacks with a frame that was found by a guess
  impossible  user stacks with a call that the code does not make: a lower bound of wrong stacks; in parentheses the share of the
              calls that could be checked
  cpu         CPU time that was sampled, of what the kernel's account says
icecore --unwind dwarf: rooted and impossible, of the same command
perf, by `perf record --call-graph dwarf,16384` of the same command and `perf script`:
  rooted      user stacks whose outermost frame is one of the same starts, by name, or by its place in the file: one of the
              two outermost of the rooted stacks of icecore
  no call     user stacks with a return address in a file in front of which there is no call (calls.py)

A program that is not installed is left out, and named.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from calls import call
from differ import CXX, NODE, POSTGRES, PYTHON, RUST

RATE = "499"
STARTS = {"_start", "clone3", "__clone3", "clone", "__clone", "start_thread", "runtime.goexit", "runtime.mstart", "runtime.rt0_go", "_rt0_amd64_linux"}
NULL = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
GO = """
package main
import ("fmt"; "sort"; "strings"; "sync"; "time")
type node struct{ left, right *node }
func tree(d int) *node { if d == 0 { return &node{} }; return &node{tree(d - 1), tree(d - 1)} }
func (n *node) count() int { if n.left == nil { return 1 }; return 1 + n.left.count() + n.right.count() }
func words(n int) int { m := map[string]int{}; for i := 0; i < n; i++ { m[fmt.Sprintf("k%d", i%97)]++ }
	k := make([]string, 0); for w := range m { k = append(k, w) }; sort.Strings(k); return len(strings.Join(k, ",")) }
func main() {
	var all sync.WaitGroup
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		for i := 0; i < 4; i++ { all.Add(1); go func() { defer all.Done(); _ = tree(12).count() + words(3000) }() }
		all.Wait()
	}
}
"""
CGO = GO.replace("package main\n", """package main
/*
#include <stdlib.h>
static int by(const void *a, const void *b) { return *(int *)a - *(int *)b; }
static int sorts(int n) { int *v = malloc(n * sizeof(int)); for (int i = 0; i < n; i++) v[i] = i * 7919 % n;
	qsort(v, n, sizeof(int), by); n = v[n / 2]; free(v); return n; }
*/
import "C"
""").replace("words(3000) }", "words(1000) + int(C.sorts(20000)) }")
JAVA = """
import java.util.*;
public class W {
  static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
  public static void main(String[] a) {
    long end = System.currentTimeMillis() + 4000; int sum = 0;
    while (System.currentTimeMillis() < end) {
      sum += fib(22); Map<String, Integer> m = new TreeMap<>();
      for (int i = 0; i < 3000; i++) m.merge("k" + i % 97, 1, Integer::sum);
      List<Integer> l = new ArrayList<>(); for (int i = 0; i < 3000; i++) l.add(i * 7919 % 3001); Collections.sort(l); sum += m.size() + l.get(7);
    }
    System.out.println(sum);
  }
}
"""
C = """
#include <stdlib.h>
#include <string.h>
#include <time.h>
static int by(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
__attribute__((noinline)) static int sorts(int n) { char **v = malloc(n * sizeof(*v));
  for (int i = 0; i < n; i++) { v[i] = malloc(12); for (int j = 0; j < 11; j++) v[i][j] = 'a' + i * 7919 / (j + 1) % 26; v[i][11] = 0; }
  qsort(v, n, sizeof(*v), by); int s = v[n / 2][3]; for (int i = 0; i < n; i++) free(v[i]); free(v); return s; }
int main(void) { int s = 0; for (clock_t end = clock() + 4 * CLOCKS_PER_SEC; clock() < end;) s += sorts(20000); return s & 1; }
"""
PERL = "my $e = time + 4; while (time < $e) { my %h; $h{$_ % 97} .= $_ for 1 .. 5000; my @s = sort { $h{$a} cmp $h{$b} } keys %h; join(',', @s) =~ /(\\d+,)+x/; }"


class Missing(Exception):
    """A program is not installed."""


def have(*names):
    """The path of the first program that is here."""
    for name in names:
        if path := shutil.which(name):
            return path
    raise Missing(names[0])


def source(folder, name, text):
    """Writes a file."""
    (folder / name).write_text(text)
    return str(folder / name)


def build(folder, *command, env=None):
    """Runs a compiler."""
    subprocess.run(command, check=True, cwd=folder, env=env, **NULL)


def go(folder, name, text, *flags):
    compiler = have("go")
    source(folder, f"{name}.go", text)
    env = os.environ | {"GOCACHE": str(folder / "cache"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    build(folder, compiler, "build", *flags, "-o", name, f"{name}.go", env=env)
    return [str(folder / name)]


def c(folder, name, compiler, *flags):
    build(folder, have(compiler), "-O2", *flags, "-o", name, source(folder, f"{name}.c", C))
    return [str(folder / name)]


def java(folder, *flags):
    have("java")
    build(folder, have("javac"), "-d", str(folder), source(folder, "W.java", JAVA))
    return ["java", *flags, "-cp", str(folder), "W"]


def newer_python(folder, *flags):
    found = sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3"))
    path = str(found[-1]) if found else have("python3.13", "python3.12", "python3.14")
    return [path, *flags, source(folder, "w.py", PYTHON)]


def repeated(folder, times, command):
    return ["sh", "-c", f"cd {folder} && for i in $(seq {times}); do {command}; done"]


def git(folder):
    have("git")
    stream = "".join(
        f"commit refs/heads/main\ncommitter a <a@b> {1700000000 + n} +0000\ndata 1\nx\n"
        + "".join(f"M 100644 inline d{i % 40}/f{i}\ndata <<.\n{n} {i}\n.\n" for i in range(n % 17, 400, 17)) + "\n"
        for n in range(1, 800))
    source(folder, "history", stream)
    return ["sh", "-c", f"cd {folder} && rm -rf h && git init -q -b main h && git -C h fast-import --quiet < history && git -C h gc -q --aggressive"]


def redis(folder):
    server, bench = have("redis-server"), have("redis-benchmark")
    return ["sh", "-c", f"cd {folder} && {server} --port 0 --unixsocket {folder}/s --save '' >/dev/null & sleep 0.5; "
            f"{bench} -s {folder}/s -q -n 300000 -c 20 -t set,get,lpush,zadd >/dev/null; kill %1 2>/dev/null || kill $!"]


def postgres(folder):
    if not POSTGRES.is_dir():
        raise Missing("postgres")
    binaries = max(POSTGRES.iterdir()) / "bin"
    home = folder / "pg"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    folder.chmod(0o755)
    shutil.chown(home, "postgres")
    user = f"runuser -u postgres -- {binaries}"
    client = f"-h {home} -U postgres postgres"
    return ["sh", "-c", f"cd / && rm -rf {home}/d && {user}/initdb -D {home}/d -U postgres >/dev/null && {user}/pg_ctl -D {home}/d -w -l {home}/log "
            f"-o '-c listen_addresses= -k {home}' start >/dev/null && {binaries}/pgbench -i -q -s 2 {client} && {binaries}/pgbench -n -T 4 -c 2 {client}; "
            f"{user}/pg_ctl -D {home}/d stop >/dev/null"]


PROGRAMS = {
    "gcc": lambda f: repeated(f, 2, f"{have('g++')} -O2 -c {source(f, 'w.cpp', CXX)} -o w.o"),
    "clang": lambda f: repeated(f, 2, f"{have('clang++')} -O2 -c {source(f, 'w.cpp', CXX)} -o w.o"),
    "rustc": lambda f: repeated(f, 4, f"{have('rustc')} -O --edition 2021 {source(f, 'w.rs', RUST)} -o w"),
    "python3": lambda f: ["/usr/bin/python3", source(f, "w.py", PYTHON)],
    "python3.12+": lambda f: newer_python(f),
    "python3.12+ -X perf": lambda f: newer_python(f, "-X", "perf"),
    "node": lambda f: [have("node"), source(f, "w.js", NODE)],
    "node --perf-basic-prof": lambda f: [have("node"), "--perf-basic-prof", source(f, "w.js", NODE)],
    "go": lambda f: go(f, "plain", GO),
    "go stripped": lambda f: go(f, "stripped", GO, "-ldflags", "-s -w"),
    "go with cgo": lambda f: go(f, "cgo", CGO),
    "java": lambda f: java(f),
    "java, perf map": lambda f: java(f, "-XX:+UnlockDiagnosticVMOptions", "-XX:+PreserveFramePointer", "-XX:+DumpPerfMapAtExit"),
    "postgres": postgres,
    "redis": redis,
    "git": git,
    "c, musl static": lambda f: c(f, "musl", "musl-gcc", "-static"),
    "c, frame pointers": lambda f: c(f, "framed", "gcc", "-fno-omit-frame-pointer"),
    "perl": lambda f: [have("perl"), "-e", PERL],
    "xz": lambda f: ["sh", "-c", f"{have('seq')} 3000000 | {have('xz')} -9 -T1 > /dev/null"],
    "openssl": lambda f: [have("openssl"), "speed", "-seconds", "1", "sha256", "rsa2048"],
    "bash": lambda f: [have("bash"), "-c", "e=$((SECONDS + 4)); while ((SECONDS < e)); do x=; for i in {1..500}; do x+=${i//5/y}; done; done"],
}


def share(value):
    """A share, as people read it."""
    return "–" if value is None else f"{100 * value:.1f}"


def of_icecore(binaries, folder, command, *options):
    """The columns of icecore, and the two outermost places of its rooted stacks."""
    file = folder / "r.icecore"
    record = [binaries / "icecore-record", "-q", "-F", RATE, *options, "--force", "-o", file, "--", *command]
    subprocess.run(record, cwd=folder, **NULL)
    text = subprocess.run([binaries / "icecore-report", "health", "--json", file], check=True, stdout=subprocess.PIPE).stdout
    health = json.loads(text)
    calls = health.get("impossible")
    impossible = share(health.get("impossible_share")) + (f" ({share(calls['checked'] / calls['calls'])})" if calls else "")
    columns = [str(health["samples"]), share(health["rooted_share"]), share(health.get("incomplete_share")),
               share(health.get("guessed_share")), impossible, share(health.get("cpu_time_agreement")), health["verdict"]]
    samples = subprocess.run([binaries / "icecore-report", "samples", "--json", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    rooted = (sample["frames"][-2:] for sample in map(json.loads, samples.splitlines()) if not sample.get("incomplete"))
    return columns, {(frame["image"], frame["offset"]) for frames in rooted for frame in frames if frame["offset"] is not None}


def frames_of_perf(data, field):
    """User stacks, leaf first: of each frame its address, and its function or file."""
    script = ["perf", "script", "-i", data, "--no-inline", "--max-stack", "4096", "-F", "tid,ip," + field]
    out = subprocess.run(script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode(errors="replace")
    for sample in out.split("\n\n"):
        frames = [line.strip().partition(" ") for line in sample.strip("\n").split("\n")[1:]]
        is_kernel = [address.startswith("ffff") or what.startswith(("([kernel", "(bpf_prog")) for address, _, what in frames]
        yield [(address, what) for (address, _, what), kernel in zip(frames, is_kernel) if not kernel]


def of_perf(folder, command, starts):
    """The columns of perf; starts are places, too."""
    data = folder / "perf.data"
    record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", RATE, "--call-graph", "dwarf,16384", "-o", data, "--", *command]
    subprocess.run(record, cwd=folder, **NULL)
    # Without names perf tells offsets in files; return addresses one byte too low.
    stacks = rooted = impossible = 0
    for named, placed in zip(frames_of_perf(data, "sym"), frames_of_perf(data, "dso")):
        if not named:
            continue
        stacks += 1
        # perf leaves `clone3` out, whose rules say that nobody has called it, and adds the ABI to names of Go.
        outermost = named[-1][1].split("+")[0].split("@")[0].removesuffix(".abi0")
        begins = {(placed[-1][1].strip("()"), int(placed[-1][0], 16) + step) for step in (0, 1)} & starts
        rooted += bool(begins) or outermost in STARTS or outermost.startswith("__libc_start_")
        places = [(int(address, 16), path.strip("()")) for address, path in placed]
        pairs = [((caller[0] + 1, caller[1]), callee) for callee, caller in zip(places, places[1:])]
        impossible += any(caller[1].startswith("/") and call(caller, callee) == "no call" for caller, callee in pairs)
    data.unlink(missing_ok=True)
    return [str(stacks), share(rooted / stacks if stacks else None), share(impossible / stacks if stacks else None)]


def main():
    binaries = Path(sys.argv[1]).resolve()
    head = ["program", "samples", "rooted", "incomplete", "guessed", "impossible", "cpu", "verdict", "dwarf: rooted", "impossible", "perf: stacks", "rooted", "no call"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for name in sys.argv[2:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            try:
                command = PROGRAMS[name](folder)
            except Missing as missing:
                print(f"| {name} | {missing} is not installed |", flush=True)
                continue
            columns, starts = of_icecore(binaries, folder, command)
            copied, _ = of_icecore(binaries, folder, command, "--unwind", "dwarf")
            row = [name, *columns, copied[1], copied[4], *of_perf(folder, command, starts)]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
