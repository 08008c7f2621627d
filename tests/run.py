#!/usr/bin/env python3
"""Builds and runs every test of the workspace: `make test`. docs/TESTING.md ("The runner") says in which order, and why.

    tests/run.py            all tests
    tests/run.py WORD...    those that have one of these words in their names (`sim::golden`, `truth::root_`)

A test whose name begins with `root_` needs eBPF. Without eBPF these are reported as skipped, or fail if `ICECORE_REQUIRE_EBPF` is
set, as in CI. Prints the time of each part, the ten slowest tests, and how many tests passed and failed.
"""

import json
import os
import queue
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# A test that takes longer has failed.
LIMIT_S = 900
# A process reports a test in such a line when it ends. Only one thread runs tests, so the time between two lines is that of a test.
ENDED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (.*)$")
SLOWEST = 10
PASSED, FAILED, FLAKY, SKIPPED = "ok", "FAILED", "FLAKY", "skipped"
# What `machine::skip` says.
SKIPPED_HERE = re.compile(r"^skipped: .*$", re.MULTILINE)
# Tests that take longest, by the beginnings of their names. They begin first, so that no CPU waits for one at the end.
SLOW = ["sim::long_stacks", "analysis::", "short::", "page::", "matching::", "oracles::", "unwind::"]
SLOW += ["kernel::crash", "kernel::walks", "kernel::jit", "kernel::callers", "kernel::probes", "kernel::returns"]
# Tests through eBPF that load the whole machine, or measure it.
ALONE = ["kernel::foreign::root_processes_that_let_nobody", "kernel::storms", "kernel::queues", "kernel::diff", "kernel::cpu_time", "kernel::counters", "kernel::neighbours", "kernel::tables", "kernel::truth", "kernel::java", "kernel::python::", "kernel::php::", "kernel::node::", "kernel::rotation::", "kernel::rates::", "kernel::hours::"]
RUNNING = set()


class Test:
    def __init__(self, program, name):
        self.program, self.name = program, name
        self.result, self.seconds, self.output = "", 0.0, ""

    def __str__(self):
        return f"{self.program.name}::{self.name}"

    @property
    def needs_ebpf(self):
        return self.name.rpartition("::")[2].startswith("root_")


class Program:
    """An executable with tests."""

    def __init__(self, path, name, folder):
        self.path, self.name, self.folder = path, name, folder

    def tests(self):
        lines = subprocess.run([self.path, "--list", "--format", "terse"], cwd=self.folder, check=True, text=True,
                               stdout=subprocess.PIPE).stdout.splitlines()
        return [Test(self, line.removesuffix(": test")) for line in lines if line.endswith(": test")]


def build():
    """Builds all programs; returns those with tests, and the folder of the others."""
    command = [CARGO, "test", "--workspace", "--no-run", "--quiet", "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit("the tests do not build")
    programs = []
    for message in map(json.loads, built.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            target, package = message["target"], Path(message["manifest_path"]).parent
            name = package.name if target["kind"] != ["test"] else target["name"]
            programs.append(Program(message["executable"], name, package))
    # With the examples, packages get the same features as above, and are not built twice.
    if subprocess.run([CARGO, "build", "--workspace", "--quiet", "--bins", "--examples"], cwd=ROOT).returncode:
        sys.exit("the programs do not build")
    return programs, Path(programs[0].path).parent.parent


def run(tests, environment, add):
    """Runs tests of one program, one after the other in one process; if that ends early, the rest in another one."""
    left = {test.name: test for test in tests}
    while left:
        with tempfile.TemporaryFile() as errors:
            program = tests[0].program
            command = [program.path, "--exact", "--test-threads=1", *left]
            process = subprocess.Popen(command, cwd=program.folder, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
            RUNNING.add(process)
            said, ended, why = follow(process, left)
            RUNNING.discard(process)
            errors.seek(0)
            said += errors.read().decode(errors="replace")
        details = failures(said)
        for test in ended:
            if test.result == FAILED:
                test.output = details.get(test.name, said)
                if SKIPPED_HERE.search(test.output):
                    test.result = SKIPPED
            del left[test.name]
            add(test)
        if left and (why or not ended):
            # The process ended in the midst of this test.
            test = left.pop(next(name for name in left))
            test.result, test.output = FAILED, f"{why or 'the process ended'}\n{said}"
            add(test)


def follow(process, tests):
    """Reads what a process says until it ends; returns that, the tests that ended, and why it did not end by itself."""
    lines, ended, why = [], [], None
    begun, pending = time.monotonic(), b""
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    while True:
        # What it started may keep its output open for longer than the process lives.
        if not selector.select(1):
            if process.poll() is not None:
                break
            if time.monotonic() - begun > LIMIT_S:
                os.killpg(process.pid, signal.SIGKILL)
                why = f"not ended within {LIMIT_S} s"
                break
            continue
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            break
        *whole, pending = (pending + data).split(b"\n")
        for line in (line.decode(errors="replace") for line in whole):
            lines.append(line)
            found = ENDED.match(line)
            if found and found[1] in tests:
                test, now = tests[found[1]], time.monotonic()
                test.result = PASSED if found[2].endswith("ok") else FAILED
                test.seconds, begun = now - begun, now
                ended.append(test)
    code = process.wait()
    if code < 0 and not why:
        why = f"ended by signal {-code}"
    return "\n".join([*lines, pending.decode(errors="replace")]), ended, why


def failures(said):
    """Splits the output of a process into that of its failed tests."""
    parts = re.split(r"^---- (\S+) stdout ----\n", said, flags=re.MULTILINE)
    return {name: text.split("\nfailures:\n")[0].strip() for name, text in zip(parts[1::2], parts[2::2])}


class Report:
    """Prints tests when they end, and keeps the time of each part."""

    def __init__(self):
        self.parts, self.lock = [], threading.Lock()

    def add(self, test):
        with self.lock:
            print(f"{test.seconds:8.2f} s  {test.result:7}  {test}", flush=True)
            if test.result == SKIPPED:
                print(SKIPPED_HERE.search(test.output)[0])

    def part(self, name, work, *args):
        """Does a part of the work, and takes its time."""
        print(f"\n== {name}", flush=True)
        begun = time.monotonic()
        result = work(*args)
        self.parts.append((name, time.monotonic() - begun))
        return result


def grouped(tests, key):
    groups = {}
    for test in tests:
        groups.setdefault(key(test), []).append(test)
    return list(groups.values())


def chunks(tests):
    """Tests of one module belong together, because they share what they compile."""
    def rank(group):
        names = [str(test) for test in group]
        slow = [at for at, word in enumerate(SLOW) if any(name.startswith(word) for name in names)]
        return min(slow, default=len(SLOW))
    return sorted(grouped(tests, lambda test: (test.program.path, test.name.rpartition("::")[0])), key=rank)


def run_side_by_side(tests, environment, report):
    """Runs tests on all CPUs: one process at a time on each."""
    work = queue.SimpleQueue()
    for group in chunks(tests):
        work.put(group)
    def worker():
        while True:
            try:
                group = work.get_nowait()
            except queue.Empty:
                return
            run(group, environment, report.add)
    workers = [threading.Thread(target=worker) for _ in range(os.cpu_count())]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()


def run_one_by_one(tests, environment, report):
    for group in grouped(tests, lambda test: test.program.path):
        run(group, environment, report.add)


def run_again(tests, environment):
    """Runs each failed test alone; what passes now is flaky."""
    for test in tests:
        again = []
        run([Test(test.program, test.name)], environment, again.append)
        [second] = again
        test.result = FLAKY if second.result == PASSED else FAILED
        test.output += f"\n-- run once more, alone: {second.result}\n{second.output}"
        print(f"{second.seconds:8.2f} s  {test.result:7}  {test}", flush=True)


def doctests():
    """Runs the examples in the documentation; returns how many passed and failed."""
    done = subprocess.run([CARGO, "test", "--workspace", "--doc", "--quiet", "--no-fail-fast"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE)
    print(done.stdout, end="", flush=True)
    counts = re.findall(r"(\d+) passed; (\d+) failed", done.stdout)
    passed, failed = (sum(int(count[side]) for count in counts) for side in (0, 1))
    return passed, max(failed, int(done.returncode != 0))


def missing_ebpf(programs):
    """Returns why eBPF cannot be used here, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        probe = [programs / "icecore-record", "-a", "-d", "0.05", "-o", f"{folder}/probe"]
        done = subprocess.run(probe, stderr=subprocess.PIPE, text=True)
    return done.stderr.strip() if done.returncode else ""


def stop(signal_number, _):
    """Ends what runs: each process has a session of its own, so a terminal's Ctrl-C does not reach it."""
    for process in list(RUNNING):
        os.killpg(process.pid, signal.SIGKILL)
    os._exit(128 + signal_number)


def main():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    words = sys.argv[1:]
    report = Report()
    programs, folder = report.part("build", build)
    tests = [test for program in programs for test in program.tests()]
    if words:
        tests = [test for test in tests if any(word in str(test) for word in words)]
    kernel = [test for test in tests if test.needs_ebpf]
    alone = [test for test in kernel if str(test).startswith(tuple(ALONE))]
    portable = [test for test in tests if not test.needs_ebpf]
    # What was built is written to the disk now: later each file that a test syncs would wait for it.
    report.part("sync", os.sync)
    # The programs are built: no test has to ask cargo for them.
    environment = {**os.environ, "CARGO": CARGO, "ICECORE_PROGRAMS": str(folder)}
    why = missing_ebpf(folder) if kernel else ""
    if why and os.environ.get("ICECORE_REQUIRE_EBPF"):
        sys.exit(f"eBPF is required here: {why}")

    report.part("portable tests, on all CPUs", run_side_by_side, portable, environment, report)
    examples = (0, 0) if words else report.part("examples in the documentation", doctests)
    if why:
        print(f"\n== eBPF cannot be used here: {why}")
        for test in kernel:
            test.result = SKIPPED
            print(f"{test.result:>19}  {test}")
    elif kernel:
        beside = [test for test in kernel if test not in alone]
        report.part("tests through eBPF, on all CPUs", run_side_by_side, beside, environment, report)
        report.part("tests through eBPF that need the machine, one after the other", run_one_by_one, alone, environment, report)
        again = [test for test in kernel if test.result == FAILED]
        if again:
            report.part("failed tests through eBPF, once more", run_again, again, environment)
    conclude(tests, examples, report.parts)


def conclude(tests, examples, parts):
    """Prints what matters of all tests; exits with 1 if one failed."""
    def with_result(*results):
        return [test for test in tests if test.result in results]
    for test in with_result(FLAKY, FAILED):
        print(f"\n== {test.result} {test}\n{test.output}")
    print("\n== the slowest tests")
    for test in sorted(tests, key=lambda test: -test.seconds)[:SLOWEST]:
        print(f"{test.seconds:8.2f} s  {test}")
    print("\n== time of each part")
    for name, seconds in parts:
        print(f"{seconds:8.2f} s  {name}")
    for test in with_result(FAILED):
        print(f"FAILED: {test}")
    flaky = with_result(FLAKY)
    passed, failed = len(with_result(PASSED)) + len(flaky) + examples[0], len(with_result(FAILED, "")) + examples[1]
    print(f"\n{passed} passed, {failed} failed, {len(with_result(SKIPPED))} skipped")
    print(f"FLAKY, failed once and passed alone: {len(flaky)}", *map(str, flaky))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
