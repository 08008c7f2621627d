"""What the readers share: where the programs are, and sums of stacks."""

import json
import os
import platform
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
HERE = ROOT / "tests/exports"
# Where tests/setup.sh installs the packages of npm.
PACKAGES = Path(os.environ.get("ICECORE_EXPORT_PACKAGES", ROOT / "target/exports"))
LIMIT_S = 600


def node():
    """The Node.js of npm: profiler-cli needs version 24, and a distribution has an older one."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    path = PACKAGES / f"node_modules/node-linux-{machine}/bin/node"
    if not path.exists():
        raise SystemExit(f"there is no Node.js at `{path}`: run tests/setup.sh")
    return str(path)


def version(package):
    return json.loads((PACKAGES / "node_modules" / package / "package.json").read_text())["version"]


def run(command, env=None, cwd=None):
    """Runs a program; returns what it prints, or ends with what it says where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=cwd, env={**os.environ, **(env or {})})
    if done.returncode:
        raise SystemExit(f"`{' '.join(map(str, command))}` ends with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def folder(below=None):
    """A folder that is removed in the end. Its path is short by default, because the name of a socket has to fit."""
    return tempfile.TemporaryDirectory(prefix="icx", dir=below or "/tmp", ignore_cleanup_errors=True)


class Sums:
    """Totals of events, and self and total of each of their functions; a function counts once in a stack."""

    def __init__(self):
        self.totals, self.functions = {}, {}

    def add(self, event, stack, weight):
        """Adds a stack of names, outermost first."""
        self.totals[event] = self.totals.get(event, 0) + weight
        functions = self.functions.setdefault(event, {})
        for name in set(stack):
            functions.setdefault(name, [0, 0])[1] += weight
        if stack:
            functions[stack[-1]][0] += weight

    def merge(self, event, name, own, total):
        """Adds what a consumer has summed."""
        entry = self.functions.setdefault(event, {}).setdefault(name, [0, 0])
        entry[0] += own
        entry[1] += total

    def result(self, consumer, facts):
        return {"consumer": consumer, "totals": self.totals, "functions": self.functions, "facts": facts}


def differences(one, other, names, at_most=20):
    """Compares two {NAME: [self, total]}; zeros may be left out of one."""
    found = []
    for name in sorted(set(one) | set(other)):
        a, b = one.get(name, [0, 0]), other.get(name, [0, 0])
        if list(a) != list(b):
            found.append(f"{name}: {a} in {names[0]}, {b} in {names[1]}")
    return found[:at_most]
