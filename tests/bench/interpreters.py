#!/usr/bin/env python3
"""Functions of interpreters in stacks: how many stacks have them, how well they agree, and what they cost.

usage: interpreters.py FOLDER-WITH-PROGRAMS

For each interpreter that is installed, programs recurse 10 and 450 functions deep. In Python since 3.11 and PHP these are in one run of the
interpreter's loop, so that the stack of the machine is the same; else each function has machine frames of its own:
  functions  samples with functions of the language, of all samples
  agree      stacks of which each frame of the loop has its functions (`interpreted` in `health`)
  rooted     user stacks whose outermost frame is a proven start
  ns each    time of the sampler for each function: the difference of both, by the kernel's account of BPF programs
  ns other   the same where no function calls itself, but two call each other
  us sample  time of the sampler for a sample of 10 functions, and the same without functions of interpreters
  CPU        CPU time of the recorder in us for a sample, names included; likewise
  bytes      size of the file for a sample; likewise
Below it, what py-spy takes that samples the same program at the same rate; it is left out where it is not installed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RATE = "997"
SECONDS = "5"
PYTHON = """
import sys, time
sys.setrecursionlimit(2000)
def work():
    n = 0
    for i in range(20000): n = (n * 31 + i) & 0xFFFF
    return n
def deep(left): return deep(left - 1) if left else work()
def one(left): return two(left - 1) if left else work()
def two(left): return one(left - 1) if left else work()
begin = {"same": deep, "others": one}[sys.argv[3]]
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end: begin(int(sys.argv[1]))
"""
PHP = """<?php
function work() { $n = 0; for ($i = 0; $i < 20000; $i++) $n = ($n * 31 + $i) & 0xffff; return $n; }
function deep($left) { return $left ? deep($left - 1) : work(); }
function one($left) { return $left ? two($left - 1) : work(); }
function two($left) { return $left ? one($left - 1) : work(); }
$begin = ['same' => 'deep', 'others' => 'one'][$argv[3]];
$end = microtime(true) + (float) $argv[2];
while (microtime(true) < $end) $begin((int) $argv[1]);
"""
JAVA = """
public class Deep {
    static int sink;
    static int work() { int n = 0; for (int i = 0; i < 200000; i++) n = (n * 31 + i) & 0xffff; return n; }
    static int deep(int left) { return left > 0 ? deep(left - 1) + 1 : work(); }
    public static void main(String[] args) {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[1]) * 1e9);
        while (System.nanoTime() < end) sink += deep(Integer.parseInt(args[0]));
    }
}
"""
NODE = """
function work() { let n = 0; for (let i = 0; i < 200000; i++) n = (n * 31 + i) & 0xffff; return n; }
function deep(left) { return left ? deep(left - 1) + 1 : work(); }
const end = Date.now() + 1000 * process.argv[3];
while (Date.now() < end) deep(+process.argv[2]);
"""


def recorded(folder, command, depth, path, functions="same", missing=""):
    """Records a program, and as if the recorder did not have a feature; returns what the report says."""
    command = [*command, str(depth), SECONDS, functions]
    recorder = [folder / "icecore-record", "-q", "-F", RATE, "-o", path, "--force", "--", *command]
    subprocess.run(recorder, check=True, env={**os.environ, "ICECORE_WITHOUT": missing})
    said = subprocess.run([folder / "icecore-report", "summary", path, "--json"], capture_output=True, check=True)
    return json.loads(said.stdout)


def share_of(folder, path, language, samples):
    """Returns the share of the samples that have functions of a language."""
    command = [folder / "icecore-report", "top", path, "--json", "--language", language]
    said = subprocess.run(command, capture_output=True, check=True)
    return json.loads(said.stdout)["total_samples"] / samples


def ns_a_sample(said):
    """Returns the time of the sampler for a sample, in nanoseconds."""
    return said["receipt"]["bpf_ns"] / said["samples"]


def percent(share):
    return "-" if share is None else f"{100 * share:.1f}%"


def row(folder, name, language, command, path):
    shallow = recorded(folder, command, 10, path)
    functions = share_of(folder, path, language, shallow["samples"]) if language else None
    found = shallow.get("interpreted")
    agree = found and found["agree"] / found["stacks"]
    deep = recorded(folder, command, 450, path)
    # The compilers of Java and of JavaScript would put one function into the other.
    others = recorded(folder, command, 450, path, "others") if found and language in ("python", "php") else None
    each = [f"{(ns_a_sample(it) - ns_a_sample(shallow)) / 440:.0f}" if found and it else "-" for it in (deep, others)]
    figures = [percent(functions), percent(agree), percent(deep["rooted_share"]), *each]
    without = [recorded(folder, command, 10, path, missing="interpreters")] if found else []
    cost = [
        " ".join(f"{ns_a_sample(it) / 1000:.1f}" for it in [shallow, *without]),
        " ".join(f"{it['receipt']['cpu_ns_per_sample'] / 1000:.0f}" for it in [shallow, *without]),
        " ".join(f"{it['bytes_per_sample']:.0f}" for it in [shallow, *without]),
    ]
    print("".join(f"{cell:>11}" for cell in [name, *figures, *cost]), flush=True)


def py_spy(command):
    """Prints what py-spy takes for a sample of ten functions."""
    tool = shutil.which("py-spy")
    if not tool:
        print("py-spy is not installed: pip install py-spy")
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        before = os.times()
        command = [tool, "record", "--rate", RATE, "--format", "raw", "-o", out, "--", *command, "10", SECONDS, "same"]
        said = subprocess.run(command, capture_output=True, text=True)
        after = os.times()
        if said.returncode or not out.exists():
            print("py-spy failed:", said.stderr.strip()[-200:])
            return
        stacks = [line.rsplit(" ", 1) for line in out.read_text().splitlines()]
    samples = sum(int(count) for _, count in stacks)
    both = after.children_user + after.children_system - before.children_user - before.children_system
    own = max(both - float(SECONDS), 0)
    print(f"py-spy {samples} samples of {float(SECONDS) * float(RATE):.0f}, about {1e6 * own / max(samples, 1):.0f} us of CPU time a sample, its stops of the program aside")


def main():
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as work:
        source = {"deep.py": PYTHON, "deep.php": PHP, "Deep.java": JAVA, "deep.js": NODE}
        for name, text in source.items():
            Path(work, name).write_text(text)
        if shutil.which("javac"):
            subprocess.run(["javac", "-d", work, Path(work, "Deep.java")], check=True)
        pythons = [Path("/usr/bin/python3"), *sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))]
        rows = [(python_name(python), "python", [python, Path(work, "deep.py")]) for python in pythons if python.exists()]
        rows += [("php", "php", ["php", "-n", Path(work, "deep.php")])]
        rows += [("java", "java", ["java", "-cp", work, "Deep"])]
        rows += [("node", "javascript", ["node", Path(work, "deep.js")])]
        heads = ["", "functions", "agree", "rooted", "ns each", "ns other", "us sample", "CPU", "bytes"]
        print("".join(f"{cell:>11}" for cell in heads))
        for name, language, command in rows:
            if shutil.which(command[0]) is None:
                print(f"{name:>11} is not installed")
                continue
            row(folder, name, language, command, Path(work, "a.icecore"))
        py_spy(["/usr/bin/python3", str(Path(work, "deep.py"))])


def python_name(python):
    said = subprocess.run([python, "--version"], capture_output=True, text=True)
    return "python " + said.stdout.split()[-1].rsplit(".", 1)[0]


main()
