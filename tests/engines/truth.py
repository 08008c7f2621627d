"""What the questions of docs/FLEET.md must answer, computed from `icecore-report samples` and `info` and never from tables."""

import json
import math
import os
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

LIBZ, WEB = "/usr/lib/libz.so.1", "/opt/web/bin/web"
OLD, NEW = "0d" * 20, "1e" * 20
SICK = "web-07"


class Frame(NamedTuple):
    name: str
    image: str
    side: str
    inlined: bool
    file: str
    line: int


@dataclass
class Recording:
    uuid: str
    host: str
    kernel: str
    labels: dict
    # Since 1970-01-01 UTC.
    start_ns: int
    end_ns: int
    # Build-ids, by path.
    builds: dict
    # The objects of `samples`, with a Frame for each frame.
    samples: list
    # Rows of `top`, by event and whether inlined functions are rows.
    tops: dict = field(default_factory=dict)

    @property
    def day(self):
        return datetime.fromtimestamp(self.start_ns // 10**9, timezone.utc).date()

    @property
    def service(self):
        return self.labels["service"]

    @property
    def duration_us(self):
        return self.end_ns // 1000 - self.start_ns // 1000

    def of(self, event):
        return [sample for sample in self.samples if sample["event"] == event]


def read(files, report, with_tops):
    """Reads recordings, as many at a time as there are CPUs."""
    if not files:
        sys.exit("there are no recordings")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # `top` of some, because it takes most of the time.
        return list(pool.map(lambda file: read_one(*file, report, with_tops), enumerate(files)))


def read_one(number, file, report, with_tops):
    def say(view, *options):
        command = [report, view, "--json", "-q", "--no-cache", "--no-debuginfod", *options, file]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    info = json.loads(say("info", "--symbol-source"))
    session = info["session"]
    samples = [json.loads(line) for line in say("samples", "--event", "*").splitlines()]
    for sample in samples:
        sample["frames"] = [Frame(*map(frame.get, Frame._fields)) for frame in sample["frames"]]
        if any(frame.name is None for frame in sample["frames"]):
            sys.exit(f"{file}: frames without names: `samples` does not say how views call them")
    start_ns, lasted_ns = session["start_unix_ns"], info["receipt"]["end_ns"] - session["start_ns"]
    builds = {source["image"]: source["build_id"] for source in info["symbol_sources"]}
    builds["[kernel]"] = session["kernel_build_id"]
    recording = Recording(info["uuid"], session["host"], session["kernel_release"], session["labels"], start_ns,
                          start_ns + lasted_ns, builds, samples)
    for event in {sample["event"] for sample in samples} if with_tops and number % 5 == 0 else ():
        for by in ("function", "inlined"):
            top = json.loads(say("top", "-n", "0", "--by", by, "--event", event))
            recording.tops[event, by == "inlined"] = top["rows"]
    return recording


# Stacks.


def physical(frames):
    """Frames without inlined ones. What lies outermost was inlined into nothing that is known."""
    return [frame for at, frame in enumerate(frames) if not frame.inlined or at == len(frames) - 1]


def function(frame):
    return frame.name, frame.image


def image(frame):
    return frame.image


class Sums:
    """Weights and numbers of samples by key: of those that end in it, and of those that have it in their stacks."""

    def __init__(self):
        self.self_ns, self.total_ns, self.hits = Counter(), Counter(), Counter()

    def add(self, sample, key, before=()):
        frames = physical(sample["frames"])
        self.self_ns[(*before, key(frames[0]))] += sample["weight"]
        for found in {key(frame) for frame in frames}:
            self.total_ns[(*before, found)] += sample["weight"]
            self.hits[(*before, found)] += 1


def sums(recordings, key, before=lambda recording: (), event="cpu-clock"):
    """Sums over all samples of an event; `before` is what keys begin with."""
    found = Sums()
    for recording in recordings:
        for sample in recording.of(event):
            found.add(sample, key, before(recording))
    return found


def cpu_ns(recordings, before=lambda recording: ()):
    """CPU time by key."""
    found = Counter()
    for recording in recordings:
        found[before(recording)] += sum(sample["weight"] for sample in recording.of("cpu-clock"))
    return found


def text(name):
    return name or ""


# What rows are counted by.


def host_and_release(recording):
    return recording.host, recording.labels["release"]


def service_and_host(recording):
    return recording.service, recording.host


def service_and_release(recording):
    return recording.service, recording.labels["release"]


# The questions, in their order.


def top(recordings):
    found, whole = sums(recordings, function), cpu_ns(recordings)[()]
    rows = [(*key, found.self_ns[key,], found.total_ns[key,], found.self_ns[key,] / whole) for (key,) in found.total_ns]
    return sorted(rows, key=lambda row: (-row[2], row[0], text(row[1])))[:20]


def library(recordings):
    found, ran = sums(recordings, image, lambda recording: (recording.day,)), Counter()
    for recording in recordings:
        ran[recording.day] += recording.duration_us
    def row(day):
        own, everything = found.self_ns[day, LIBZ], found.total_ns[day, LIBZ]
        return str(day), ran[day], own, everything, own / 1000 / ran[day], everything / 1000 / ran[day]
    return [row(day) for day in sorted(ran)]


def regression(recordings):
    web = [recording for recording in recordings if recording.service == "web"]
    found, whole = sums(web, function, host_and_release).self_ns, cpu_ns(web, host_and_release)
    hosts = sorted(host for host, release in whole if release == "1.5.0" and (host, "1.4.2") in whole)
    rows, n = [], len(hosts)
    if n < 2:
        sys.exit("no two hosts ran both releases: the fleet needs 61 days or more, and 8 hosts")
    for code in {code for _, _, code in found}:
        shares = [[found[host, release, code] / whole[host, release] for release in ("1.4.2", "1.5.0")] for host in hosts]
        before, after = (sum(share[side] for share in shares) / n for side in (0, 1))
        growth = after - before
        deviation = math.sqrt(sum((b - a - growth) ** 2 for a, b in shares) / (n - 1))
        margin = deviation / math.sqrt(n) * (1.96 + 2.37 / (n - 1) + 2.82 / (n - 1) ** 2)
        rows.append((*code, before, after, growth, growth - margin, growth + margin))
    return sorted(rows, key=lambda row: (-row[5], row[0], text(row[1])))[:20]


def differing_hosts(recordings):
    found, whole, rows = sums(recordings, function, service_and_host).self_ns, cpu_ns(recordings, service_and_host), []
    for service, host, code in found:
        others = [found[service, other, code] / whole[service, other] for of, other in whole if of == service and other != host]
        mean = sum(others) / len(others)
        deviation = math.sqrt(sum((share - mean) ** 2 for share in others) / (len(others) - 1))
        share = found[service, host, code] / whole[service, host]
        if abs(share - mean) > 8 * deviation:
            rows.append((service, host, *code, share, mean, deviation))
    return sorted(rows, key=lambda row: (*row[:3], text(row[3])))


def one_kernel(recordings):
    found = sums(recordings, lambda frame: (*function(frame), frame.side), lambda recording: (recording.kernel, recording.host))
    where, total_ns, hits = defaultdict(set), Counter(), Counter()
    for (kernel, host, code), weight in found.total_ns.items():
        where[code].add((kernel, host))
        total_ns[code] += weight
        hits[code] += found.hits[kernel, host, code]
    rows = [(*code[:2], min(where[code])[0], len({host for _, host in where[code]}), total_ns[code], hits[code])
            for code in where if code[2] == "kernel" and len({kernel for kernel, _ in where[code]}) == 1 and hits[code] >= 100]
    return sorted(rows, key=lambda row: (-row[4], row[0], text(row[1])))


def waiting(recordings):
    waits = defaultdict(list)
    for recording in recordings:
        for sample in recording.of("off-cpu"):
            waits[recording.service, sample["wait"]["kind"]].append(sample["weight"])
    rows = [(*key, len(ns), sum(ns), max(ns), sum(ns) / len(ns)) for key, ns in waits.items()]
    return sorted(rows, key=lambda row: (-row[3], *row[:2]))


def requests(recordings):
    spent, served, number = cpu_ns(recordings, service_and_release), Counter(), Counter(map(service_and_release, recordings))
    for recording in recordings:
        served[service_and_release(recording)] += int(recording.labels["requests"])
    return [(*of, number[of], spent[of], served[of], spent[of] / served[of]) for of in sorted(spent)]


def old_build(recordings):
    newest = {}
    for recording in sorted(recordings, key=lambda recording: recording.start_ns):
        newest[recording.host] = recording
    rows = [(it.host, it.service, str(it.day), it.labels["release"]) for it in newest.values() if it.builds.get(LIBZ) == OLD]
    return sorted(rows)


def growth(begin_of):
    """The answer for the periods that begin on the days that `begin_of` gives."""
    def key(recording):
        return (begin_of(recording.day),)

    def answer(recordings):
        web = [recording for recording in recordings if recording.service == "web"]
        found, whole, rows = sums(web, function, key).self_ns, cpu_ns(web, key), []
        for (begin,) in sorted(whole):
            own = found[begin, ("parse", WEB)]
            rows.append((str(begin), own, whole[begin,], own / whole[begin,]))
        return [(*row, row[3] / rows[0][3]) for row in rows]
    return answer


def quality(recordings):
    hits, incomplete, seen = Counter(), Counter(), defaultdict(set)
    for recording in recordings:
        for sample in recording.of("cpu-clock"):
            for path in {frame.image for frame in sample["frames"]}:
                hits[path, recording.builds[path]] += 1
                seen[path, recording.builds[path]].add(recording.uuid)
            if sample.get("incomplete"):
                path = sample["frames"][-1].image
                incomplete[path, recording.builds[path]] += 1
    # All frames have names: `read_one` checks it.
    rows = [(*key, len(seen[key]), hits[key], incomplete[key], 0, incomplete[key] / hits[key], 0.0) for key in hits]
    return sorted(rows, key=lambda row: (-row[4], row[0], text(row[1])))[:20]


def flag_day(recordings):
    rows = []
    for service in sorted({recording.service for recording in recordings}):
        sides = {OLD: [], NEW: []}
        for recording in recordings:
            if recording.service == service and recording.host != SICK and LIBZ in recording.builds:
                sides[recording.builds[LIBZ]].append(recording)
        of_library = {build: sums(of, image).self_ns[LIBZ,] for build, of in sides.items()}
        rest = {build: cpu_ns(of)[()] - of_library[build] for build, of in sides.items()}
        at_new_rate = rest[OLD] * of_library[NEW] / rest[NEW]
        saved, old_us = of_library[OLD] - at_new_rate, sum(recording.duration_us for recording in sides[OLD])
        hosts = len({recording.host for recording in sides[OLD]})
        rows.append((service, hosts, of_library[OLD], at_new_rate, saved, saved / 1000 / old_us))
    return rows


def callers(recordings):
    hits, weights, seen = Counter(), Counter(), defaultdict(set)
    for recording in recordings:
        for sample in recording.of("cpu-clock"):
            frames = [function(frame) for frame in sample["frames"]]
            called = {caller for frame, caller in zip(frames, [*frames[1:], ("[none]", None)]) if frame == ("deflate", LIBZ)}
            for caller in called:
                hits[caller] += 1
                weights[caller] += sample["weight"]
                seen[caller].add(recording.uuid)
    rows = [(*caller, hits[caller], weights[caller], len(seen[caller])) for caller in hits]
    return sorted(rows, key=lambda row: (-row[3], row[0], text(row[1])))


MONTHS = "9. Growth of a function"
QUESTIONS = {
    "1. Top functions of a fleet": top,
    "2. Cores spent in a library, by day": library,
    "3. Regression by release, with its interval": regression,
    "4. Hosts that differ": differing_hosts,
    "5. Functions on one kernel only": one_kernel,
    "6. Waiting, by kind and service": waiting,
    "7. Cost of a request": requests,
    "8. Hosts that still run a build": old_build,
    MONTHS: growth(lambda day: day.replace(day=1)),
    f"{MONTHS}, by week": growth(lambda day: day - timedelta(day.weekday())),
    f"{MONTHS}, by day": growth(lambda day: day),
    "10. Quality of stacks, by image": quality,
    "11. What a flag day would save": flag_day,
    "12. Who calls a function, on all hosts": callers,
}


def answers(recordings):
    """The expected rows of each question."""
    return {heading: answer(recordings) for heading, answer in QUESTIONS.items()}


def unknown(answers):
    """What the answers do not show, although tests/src/synthetic/fleet.rs made it so."""
    regressions = [row[0] for row in answers["3. Regression by release, with its interval"] if row[5] > 0]
    differing = [row[1:3] for row in answers["4. Hosts that differ"]]
    new_in_kernel = [(row[0], row[2]) for row in answers["5. Functions on one kernel only"]]
    old_builds = [int(row[0][-2:]) % 3 for row in answers["8. Hosts that still run a build"]]
    ends_in = answers["10. Quality of stacks, by image"]
    facts = {
        "of `web`, `parse` alone costs more with 1.5.0": regressions == ["parse"],
        f"`crc32` costs more on {SICK} alone": differing == [(SICK, "crc32")],
        "`tcp_fast_path` is in 6.12 alone": new_in_kernel == [("tcp_fast_path", "6.12.9")],
        "every third host has the old build of libz": old_builds and not any(old_builds),
        "stacks end in the old build of libz, always and alone": [row[:2] for row in ends_in if row[4]] == [(LIBZ, OLD)]
        and ends_in[0][6] == 1,
    }
    return [f"not shown: {fact}" for fact, holds in facts.items() if not holds]
