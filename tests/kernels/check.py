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


def report(view, name, *options):
    command = [REPORT, view, "--json", "--no-cache", "--no-debuginfod", "--sysroot", TREE, *options, f"{FOLDER}/{name}.icecore"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check(holds, text):
    print(("   " if holds else "NO ") + text)
    if not holds:
        WRONG.append(text)


def in_parts(name, event):
    """How often `probed` hits an event in each sampled part: between two parts lies a longer time than between two hits."""
    found = [json.loads(line) for line in report("samples", name, "--event", event).splitlines()]
    times = sorted(row["time_ns"] for row in found if row["comm"] == "probed")
    parts = []
    for before, time in zip([None, *times], times):
        if before is None or time - before > 300e6:
            parts.append(0)
        parts[-1] += 1
    return parts


def stacks(name, leaf=None):
    """User frames of the samples, by name; of those with `leaf` alone, if it is given."""
    rows = [json.loads(line) for line in report("samples", name).splitlines()]
    frames = [[frame["name"] or "?" for frame in row["frames"] if frame["side"] == "user"] for row in rows]
    return [stack for stack in frames if leaf is None or leaf in stack]


def share(part, whole):
    return part / whole if whole else 0.0


summaries = {path.stem: json.loads(report("summary", path.stem)) for path in sorted(Path(FOLDER).glob("*.icecore"))}
NAMES = ["recursion", "recursion-fp", "recursion-dwarf", "buffer", "buffer-dwarf", "alternate", "go", "in_step", "cgroup", "all"]
# Since then, or earlier, tracepoints of system calls have registers of the kernel; 6.1 has those of the user.
NO_USER_REGISTERS = [6, 12]
EVENTS = ["uprobe", "tracepoint", "field", "kprobe", "kretprobe", "fentry", "fexit", "overfull", "slept", "several", "return", "duration", "deep", "leaps", "usdt", "probed-waits", "waits", "wakers", "paused", "long-waits", "idle"]
if "all" not in summaries:
    sys.exit(f"NO recordings: {', '.join(summaries)}")
release = summaries["all"]["kernel_release"]
version = [int(part) for part in release.split(".")[:2]]
has_loop = version >= [5, 17]
has_events = version >= [5, 12]
# The tree of mappings, in which the walk by unwind tables finds the code.
has_tree = version >= [6, 1]
check(set(summaries) == set(NAMES + EVENTS * has_events), f"recordings: {', '.join(summaries)}")
if WRONG:
    sys.exit(1)
print(f"   {release}: {'our own walk' if has_loop else 'the walk of the kernel'}")

for name, summary in summaries.items():
    says_less = any("user stacks end at 127 frames" in note for note in summary["notes"])
    check(says_less != has_loop, f"{name}: {'says' if says_less else 'does not say'} that stacks are cut and not copied")
    if not name.endswith(("-fp", "-dwarf")):
        says_tables = any("walked by unwind tables once" in note for note in summary["notes"])
        check(says_tables == has_tree, f"{name}: {'says' if says_tables else 'does not say'} that stacks are walked by unwind tables")
    subprocess.run([REPORT, "verify", "-q", f"{FOLDER}/{name}.icecore"], check=True, capture_output=True)
    if name in EVENTS:
        continue
    agreement = summary["cpu_time_agreement"]
    parts = ["rooted_share", "incomplete_share", "guessed_share", "impossible_share", "suspect_share", "named_share"]
    told = ", ".join(f"{part[:-6]} {summary[part]:.3f}" for part in parts if summary.get(part) is not None)
    print(f"   {name}: {summary['samples']} samples, {summary['lost']} lost, {told}, CPU time {agreement}")
    # A busy machine does not emulate all ticks of the timer: that both sides are there and samples do not say more is what counts.
    if name != "cgroup":
        check(agreement is not None and 0.2 < agreement < 1.1, f"{name}: the kernel's account of CPU time is there")
    check(summary["lost"] == 0 and summary["closed"], f"{name}: whole")
    if has_loop:
        # A walk skips the callers of leaves of libc, and is not rooted then. Stacks at the start of Go's runtime are not proven to be.
        least = 0.3 if name.endswith("-fp") else 0.6 if name == "go" else 0.85
        check((summary["rooted_share"] or 0) > least, f"{name}: stacks are rooted")
    else:
        said = any("takes user stacks itself" in problem for problem in summary["problems"])
        check(said and summary["verdict"] != "good", f"{name}: the report says so, too; called {summary['verdict']}")

for name in ["recursion", "buffer", "alternate"]:
    audit = summaries[name].get("audit", {"walked": 0, "checked": 0, "agree": 0, "differ": 0})
    walked = share(audit["walked"], summaries[name]["samples"])
    told = f"{name}: {walked:.3f} are walked by unwind tables; {audit['checked']} are checked, {audit['agree']} agree"
    check(walked > 0.5 and audit["checked"] > 20 and audit["differ"] == 0 if has_tree else not walked, told)

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
check(len(found) > 40 and share(len(whole), len(found)) > 0.9, f"go: {len(whole)} of {len(found)} stacks are whole")



def rows(name, *options):
    """Samples of all events, or of those that the options choose."""
    return [json.loads(line) for line in report("samples", name, *options).splitlines()]


def names(row, side):
    return [frame["name"] or "?" for frame in row["frames"] if frame["side"] == side]


def up_to_main(row):
    """User frames from the leaf to `main`; None if the stack does not get there."""
    found = names(row, "user")
    return found[: found.index("main")] if "main" in found else None


def check_hits(name, chain, event="*"):
    """All 500 hits are there, each with its stack."""
    found = rows(name, "--event", event)
    whole = [row for row in found if up_to_main(row) == chain]
    lost = summaries[name]["lost_by_cause"]
    check(len(found) == 500, f"{name}: {len(found)} of 500 hits of {event}; lost: {lost}")
    check(len(whole) == len(found), f"{name}: {len(whole)} of them have the stack {chain}")
    return found


if has_events:
    check_hits("uprobe", ["tick", "twice"])
    # Tracepoints of system calls have the registers of user space on older kernels, from which no kernel stack can be walked.
    for name in ["tracepoint", "kprobe"]:
        found = rows(name)
        whole = [row for row in found if "yields" in names(row, "user") and names(row, "user")[-1:] == ["_start"]]
        entered = [row for row in found if any("do_syscall_64" in frame or "x64_sys" in frame for frame in names(row, "kernel"))]
        missed = summaries[name]["lost_by_cause"].get("missed_runs", 0)
        check(len(found) + missed >= 500 >= len(found) == len(whole), f"{name}: {len(found)} hits, {missed} missed, {len(whole)} with the whole stack of the user")
        expected = 0 if name == "tracepoint" and version < NO_USER_REGISTERS else len(found)
        check(len(entered) == expected, f"{name}: {len(entered)} with the stack of the kernel")
    written = [row for row in rows("field", "--event", "syscalls:*") if row["weight"] == 1000]
    true = all(row["field"] == {"name": "fd", "value": 1} for row in written)
    missed = summaries["field"]["lost_by_cause"].get("missed_runs", 0)
    check(true and len(written) + missed >= 50 >= len(written), f"field: {len(written)} of 50 writes weigh what they wrote, {missed} missed")
    executed = [row["field"] for row in rows("field", "--event", "sched:*")]
    check({"name": "filename", "value": "/bin/dd"} in executed, f"field: a program was executed: {executed}")
    entry = ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"]
    reading, called = ["vfs_read", "ksys_read"], ["read", "reads", "main"]
    READS = [("kretprobe", "kretprobe:vfs_read", reading[1:]), ("fentry", "fentry:vfs_read", reading), ("fexit", "fexit:vfs_read", reading[1:])]
    for name, event, inner in READS + [("fexit", "kprobe:vfs_read", reading), ("fexit", "fentry:ksys_read", reading[1:])]:
        found = [row for row in rows(name, "--event", event) if "reads" in names(row, "user")]
        missed = summaries[name]["lost_by_cause"].get("missed_runs", 0)
        whole = [row for row in found if names(row, "user")[:3] == called and [frame for frame in names(row, "kernel") if frame != "__x64_sys_read"] == inner + entry]
        weights = [row["weight"] for row in found]
        true = set(weights) == {1} if event == "fentry:ksys_read" else sorted(set(weights)) == weights and set(weights) <= set(range(1, 501))
        check(len(found) + missed >= 500 >= len(found) == len(whole), f"{name}: {len(found)} of 500 hits of {event}, {missed} missed, {len(whole)} whole")
        check(true and len(found) > 100, f"{name}: each hit of {event} weighs {'what it should' if true else weights}")
    # The kernel has room for about ten calls that did not return yet. It also counts the sleeps of others meanwhile.
    found, missed = len(rows("overfull")), summaries["overfull"]["lost_by_cause"].get("missed_runs", 0)
    check(found + missed >= 30 > found >= 5 if version >= [6, 7] else 5 <= found < 30, f"overfull: {found} of 30 returns at a time, {missed} missed")
    around = list(map(int, Path(FOLDER, "slept.txt").read_text().splitlines()[:100]))
    weights = [row["weight"] for row in rows("slept") if "sleeps" in names(row, "user")]
    missed = sum(summaries["slept"]["lost_by_cause"].get(cause, 0) for cause in ["missed_runs", "unpaired"])
    # A return that was missed shifts those after it.
    limits = iter(around)
    true = sum(2_000_000 <= weight and any(weight <= limit for limit in limits) for weight in weights)
    check(true == len(weights) <= 100 <= len(weights) + missed, f"slept: {true} of {len(weights)} durations in the kernel are true, {missed} missed")
    sized = check_hits("several", ["sized"], "*:sized*")
    check([row["weight"] for row in sized] == list(range(1, 501)), "several: hits weigh the argument")
    clock = rows("several", "--event", "cpu-clock")
    check(len(clock) > 0, f"several: {len(clock)} samples of the clock")

    found = [up_to_main(row) for row in rows("return")]
    check(found == [["down"] * depth for depth in reversed(range(50))], f"return: {len(found)} of 50 returns with their stacks")
    times = {}
    for line in Path(FOLDER, "duration.txt").read_text().splitlines():
        tid, inside, around = map(int, line.split())
        times.setdefault(tid, []).append((inside, around))
    for tid, calls in times.items():
        weights = [row["weight"] for row in rows("duration") if row["tid"] == tid]
        true = sum(inside <= weight <= around for weight, (inside, around) in zip(weights, calls))
        check(true == len(weights) == len(calls) == 320, f"duration: {true} of 320 durations are true")
    lost = summaries["deep"]["lost_by_cause"]
    check(len(rows("deep")) == 64 and lost == {"unpaired": 36}, f"deep: {len(rows('deep'))} of 64 returns; lost: {lost}")
    found = [row for row in rows("leaps", "--event", "cpu-clock") if {"leaps", "stays"} & set(names(row, "user"))]
    wrong = [names(row, "user") for row in found if "decoy" in names(row, "user")]
    whole = [row for row in found if names(row, "user")[-1:] == ["_start"] and "calls_stays" in names(row, "user")]
    check(len(found) > 100 and not wrong and share(len(whole), len(found)) > 0.9, f"leaps: {len(whole)} of {len(found)} stacks are whole, {len(wrong)} wrong")
    found = Counter(tuple(up_to_main(row) or []) for row in rows("usdt"))
    check(found == {("sells",): 30, ("resells", "sells"): 30, ("prices", "sells"): 30}, f"usdt: {dict(found)}")

    found = rows("probed-waits", "--event", "off-cpu")
    for function in ["sleeps", "reads"]:
        own = [names(row, "user") for row in found if function in names(row, "user")]
        whole = [stack for stack in own if stack[stack.index(function) + 2 : stack.index(function) + 3] == ["start_thread"]]
        check(len(own) >= 14 and len(whole) == len(own), f"probed-waits: {len(own)} waits below a probed return of {function}; {len(whole)} stacks are whole")
    told = {line.split()[0]: int(line.split()[1]) for line in Path(FOLDER, "waits.txt").read_text().splitlines() if line[:8] != "computes"}
    WAITS = {"sleeper": ("sleeps", "hrtimer_nanosleep"), "poller": ("polls", "poll"), "reader": ("reads", "pipe_read"), "locker": ("locks", "futex_wait"), "faulter": ("faults_in", "handle_userfault"), "spawner": ("spawns", "wait_for_completion"), "overwriter": ("overwrites", "rwsem_down_write")}
    for name in ["waits", "wakers"]:
        found = rows(name, "--event", "off-cpu,run-delay")
        notes = [note for note in summaries[name]["notes"] if "at most 2 KiB" in note]
        check((version < [6, 18]) == bool(notes), f"{name}: notes {notes}")
        lost = summaries[name]["lost_by_cause"]
        check(not set(lost) - {"stack_shortened"} and lost.get("stack_shortened", 0) < 20, f"{name}: lost {lost}")
        for thread, (function, kernel) in WAITS.items():
            own = [row for row in found if row["comm"] == thread and row["tid"] != row["tgid"]]
            inside = [row for row in own if function in names(row, "user") and row["event"] == "off-cpu"]
            inside = [row for row in inside if any(kernel in frame for frame in names(row, "kernel"))]
            whole = [row for row in inside if names(row, "user")[-2:-1] == ["start_thread"]]
            check(len(inside) >= 17 and len(whole) == len(inside), f"{name}: {thread} waits {len(inside)} times in {function}, {kernel}; {len(whole)} stacks are whole")
            if name == "waits" and thread not in ["locker", "overwriter"]:
                weight, waited = sum(row["weight"] for row in own), told[function]
                check(0.8 < weight / waited < 1.5, f"waits: {thread} waits {weight / 1e6:.0f} ms, by its own clock {waited / 1e6:.0f}")
    # Under emulation it takes some seconds until the recorder has made all tables, those of the vDSO last. From then on every wait is
    # walked by them.
    ends = [row["ended"] for row in rows("long-waits", "--event", "off-cpu,run-delay") if row["ended"] != "none"]
    last = ends[-(len(ends) // 10) :]
    walked = last.count("by_tables")
    by_tables = has_tree and version < [6, 18]
    check(walked > len(last) / 2 if by_tables else True, f"long-waits: {walked} of the last {len(last)} stacks were walked by unwind tables")
    parts = [in_parts("paused", event) for event in ["fentry:hrtimer_nanosleep", "kprobe:hrtimer_nanosleep", "syscalls:sys_enter_clock_nanosleep", "off-cpu"]]
    alike = all(len(of_event) == len(parts[0]) and all(abs(one - other) <= 3 for one, other in zip(of_event, parts[0])) for of_event in parts)
    check(len(parts[0]) > 2 and alike, f"paused: the hits of each sampled part, by event: {parts}")
    idle = rows("idle", "--event", "off-cpu")
    for thread, function in [("idler", "idler"), ("waits", "main")]:
        own = [row for row in idle if row["comm"] == thread]
        check(len(own) == 1 and function in names(own[0], "user"), f"idle: {thread} waits all the time below {function}")
    wakers = rows("wakers", "--event", "waker")
    for function, thread in [("writes", "writer"), ("unlocks", "holder")]:
        own = [row for row in wakers if function in names(row, "user")]
        check(18 <= len(own) <= 20 and {row["comm"] for row in own} == {thread}, f"wakers: {len(own)} waits are ended by {function}")
    timers = [row for row in wakers if "hrtimer_wakeup" in names(row, "kernel")]
    check(len(timers) >= 60 and all(row["tid"] == 0 for row in timers), f"wakers: {len(timers)} waits are ended by timers")

threads = Counter(json.loads(line)["comm"] for line in report("samples", "in_step").splitlines())
working = [threads[f"in_step_{number}"] for number in range(4)]
check(min(working) > 0.1 * sum(working) > 0, f"in_step: samples of four equal processes are {working}")
frames = [frame for line in report("samples", "all").splitlines() for frame in json.loads(line)["frames"]]
kernel = [frame["name"] for frame in frames if frame["side"] == "kernel"]
named = share(sum(name is not None for name in kernel), len(kernel))
check(len(kernel) > 100 and named > 0.99, f"all: {named:.3f} of {len(kernel)} kernel frames have a name")
sys.exit(1 if WRONG else 0)
