#!/usr/bin/env python3
"""check.py REPORT TREE FOLDER: judges the recordings that run.sh has made on a kernel. Prints what it finds, and fails if
anything is wrong. What a timer under emulation hits is not exact: shares are, within what so few samples allow."""
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

REPORT, TREE, FOLDER = sys.argv[1:]
WRONG = []


def report(view, name):
    command = [REPORT, view, "--json", "--no-cache", "--no-debuginfod", "--sysroot", TREE, f"{FOLDER}/{name}.icecore"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check(holds, text):
    print(("   " if holds else "NO ") + text)
    if not holds:
        WRONG.append(text)


def stacks(name, leaf=None):
    """User frames of the samples, by name; of those with `leaf` alone, if it is given."""
    rows = [json.loads(line) for line in report("samples", name).splitlines()]
    frames = [[frame["name"] or "?" for frame in row["frames"] if frame["side"] == "user"] for row in rows]
    return [stack for stack in frames if leaf is None or leaf in stack]


def share(part, whole):
    return part / whole if whole else 0.0


summaries = {path.stem: json.loads(report("summary", path.stem)) for path in sorted(Path(FOLDER).glob("*.icecore"))}
NAMES = ["recursion", "recursion-fp", "recursion-dwarf", "buffer", "buffer-dwarf", "alternate", "go", "in_step", "cgroup", "all"]
check(set(summaries) == set(NAMES), f"recordings: {', '.join(summaries)}")
if WRONG:
    sys.exit(1)
release = summaries["all"]["kernel_release"]
has_loop = [int(part) for part in release.split(".")[:2]] >= [5, 17]
print(f"   {release}: {'our own walk' if has_loop else 'the walk of the kernel'}")

for name, summary in summaries.items():
    says_less = any("user stacks end at 127 frames" in note for note in summary["notes"])
    check(says_less != has_loop, f"{name}: {'says' if says_less else 'does not say'} that stacks are cut and not copied")
    subprocess.run([REPORT, "verify", "-q", f"{FOLDER}/{name}.icecore"], check=True, capture_output=True)
    agreement = summary["cpu_time_agreement"]
    parts = ["rooted_share", "incomplete_share", "guessed_share", "impossible_share", "suspect_share", "named_share"]
    told = ", ".join(f"{part[:-6]} {summary[part]:.3f}" for part in parts if summary.get(part) is not None)
    print(f"   {name}: {summary['samples']} samples, {summary['lost']} lost, {told}, CPU time {agreement}")
    # A busy machine does not emulate all ticks of the timer: that both sides are there and samples do not say more is what counts.
    if name != "cgroup":
        check(agreement is not None and 0.2 < agreement < 1.1, f"{name}: the kernel's account of CPU time is there")
    check(summary["lost"] == 0 and summary["closed"], f"{name}: whole")
    if has_loop:
        # A walk skips the callers of leaves of libc, and is not rooted then.
        least = 0.3 if name.endswith("-fp") else 0.9
        check(summary["rooted_share"] > least, f"{name}: stacks are rooted")
    else:
        said = any("takes user stacks itself" in problem for problem in summary["problems"])
        check(said and summary["verdict"] != "good", f"{name}: the report says so, too; called {summary['verdict']}")

for name in ["recursion", "recursion-fp", "recursion-dwarf"]:
    depths = Counter(stack.count("goes_down") for stack in stacks(name, "at_the_bottom"))
    exact = share(depths[500], depths.total())
    if has_loop:
        check(depths.total() > 100 and exact > 0.97, f"{name}: 500 frames in {exact:.3f} of {depths.total()} stacks")
    else:
        check(depths.total() > 100 and max(depths) <= 127, f"{name}: at most {max(depths)} frames")
        check(summaries[name]["cut_share"] > 0.9, f"{name}: {summaries[name]['cut_share']} of the stacks are marked as cut")

for name in ["buffer", "buffer-dwarf"]:
    found = stacks(name, "spin")
    callers = Counter(caller for stack in found for caller in ["ten", "thirty", "sixty"] if caller in stack)
    known = share(callers.total(), len(found))
    if has_loop:
        shares = [share(callers[caller], callers.total()) for caller in ["ten", "thirty", "sixty"]]
        near = all(abs(share - truth) < 0.12 for share, truth in zip(shares, [0.1, 0.3, 0.6]))
        check(len(found) > 100 and known > 0.95 and near, f"{name}: {known:.3f} have callers, with {[round(s, 3) for s in shares]}")
    else:
        print(f"   {name}: {known:.3f} have callers")

if has_loop:
    chain = ["leaf", "handler", "__restore_rt"], ["raise", "raises", "handled", "main"]
    found = [stack for stack in stacks("alternate") if stack[:1] == ["leaf"]]
    whole = [stack for stack in found if stack[:3] == chain[0] and any(stack[at : at + 4] == chain[1] for at in range(8))]
    check(len(found) > 100 and share(len(whole), len(found)) > 0.95, f"alternate: {len(whole)} of {len(found)} stacks are whole")
found = stacks("go", "main.leaf")
whole = [stack for stack in found if "main.main" in stack and "runtime.main" in stack]
check(len(found) > 100 and share(len(whole), len(found)) > 0.9, f"go: {len(whole)} of {len(found)} stacks are whole")

threads = Counter(json.loads(line)["comm"] for line in report("samples", "in_step").splitlines())
working = [threads[f"in_step_{number}"] for number in range(4)]
check(min(working) > 0.1 * sum(working) > 0, f"in_step: samples of four equal processes are {working}")
frames = [frame for line in report("samples", "all").splitlines() for frame in json.loads(line)["frames"]]
kernel = [frame["name"] for frame in frames if frame["side"] == "kernel"]
named = share(sum(name is not None for name in kernel), len(kernel))
check(len(kernel) > 100 and named > 0.99, f"all: {named:.3f} of {len(kernel)} kernel frames have a name")
sys.exit(1 if WRONG else 0)
