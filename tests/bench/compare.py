#!/usr/bin/env python3
"""Records one workload with icecore-record and with perf, alternating, and prints what each cost.

usage: compare.py FOLDER-WITH-PROGRAMS [RUNS]

Both record the whole machine at the same rate and event with frame-pointer stacks, from before the
workload starts until after it ends. CPU time and memory are those of the recorder's own process, from
its start to its end; the workload is a process beside it. Figures are medians; compare the ratios.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RATE = "999"


def finish(child):
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage


def measured(command):
    """Runs a command to its end and tells what it took."""
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    usage = finish(child)
    if child.returncode != 0:
        sys.exit(f"compare: `{' '.join(map(str, command))}` failed")
    return {"seconds": time.monotonic() - begin, "rss": usage.ru_maxrss * 1024}


def recorded(recorder, workload):
    """Runs a recorder around the workload and tells what the recorder took."""
    child = subprocess.Popen(recorder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(1.0)
    subprocess.run(workload, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    child.send_signal(signal.SIGINT)
    said = child.stderr.read()
    usage = finish(child)
    return {"cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss * 1024, "said": said}


def summary(report, path):
    return json.loads(subprocess.run([report, "summary", path, "--json"], check=True, capture_output=True).stdout)


def perf_counts(path):
    """Samples and lost samples of a perf.data file."""
    text = subprocess.run(["perf", "report", "--stats", "-i", path], capture_output=True, text=True).stdout
    counts = {"SAMPLE": 0, "LOST": 0, "LOST_SAMPLES": 0}
    for line in text.splitlines():
        name, _, rest = line.strip().partition(" events:")
        if name in counts and rest:
            counts[name] = max(counts[name], int(rest.split()[0]))
    return counts["SAMPLE"], counts["LOST"] + counts["LOST_SAMPLES"]


def perf_recorded(path, event, rate, more, workload):
    """Records with perf and tells what it took, samples and lost samples. perf 6.1 sometimes aborts: then once more."""
    for _ in range(5):
        cost = recorded(["perf", "record", "-a", "-g", "-F", rate, "-e", event, "-o", path, *more], workload())
        samples, lost = perf_counts(path)
        if samples > 0:
            return cost, samples, lost
        print("compare: perf gave no samples: once more", file=sys.stderr)
    sys.exit("compare: perf gave no samples in five runs")


def without_symbols(report, path):
    """Bytes of a recording without the names of functions in images, of which perf.data has none."""
    info = json.loads(subprocess.run([report, "info", path, "--json"], check=True, capture_output=True).stdout)
    symbols = [block["stored_len"] + 64 for block in info["blocks"] if block["kind"] == "symbols"]
    return path.stat().st_size - sum(symbols)


def one_run(programs, folder, workload, event):
    record, report = programs / "icecore-record", programs / "icecore-report"
    file, data, packed = folder / "r.icecore", folder / "perf.data", folder / "perf-z.data"
    out = {}
    cost = recorded([record, "-a", "-F", RATE, "-q", "--force", "--unwind", "fp", "-o", file], workload)
    seen = summary(report, file)
    out["icecore"] = {
        "samples": seen["samples"],
        "lost": seen["lost"],
        "bytes": without_symbols(report, file) / seen["samples"],
        "cpu": cost["cpu"] / seen["samples"] * 1e6,
        "rss": cost["rss"],
    }
    for name, path, more in [("perf", data, []), ("perf -z", packed, ["-z"])]:
        cost, samples, lost = perf_recorded(path, event, RATE, more, lambda: workload)
        out[name] = {
            "samples": samples,
            "lost": lost,
            "bytes": path.stat().st_size / samples,
            "cpu": cost["cpu"] / samples * 1e6,
            "rss": cost["rss"],
        }
    for name, command in [
        ("icecore", [report, "top", file, "--no-cache"]),
        ("perf", ["perf", "report", "--stdio", "--no-children", "-g", "none", "-i", data]),
    ]:
        took = measured(command)
        out[name] |= {"report": took["seconds"], "report_rss": took["rss"]}
    return out


def density(programs, folder, workload, event, rate):
    """Bytes per sample of one workload, by tool: one run each, since files hardly differ between runs."""
    file = folder / "d.icecore"
    recorded([programs / "icecore-record", "-a", "-F", rate, "-q", "--force", "--unwind", "fp", "-o", file], workload())
    seen = summary(programs / "icecore-report", file)
    size = without_symbols(programs / "icecore-report", file)
    out = {"icecore": (size / seen["samples"], seen["samples"])}
    for name, more in [("perf", []), ("perf -z", ["-z"])]:
        data = folder / "d.data"
        _, samples, _ = perf_recorded(data, event, rate, more, workload)
        out[name] = (data.stat().st_size / samples, samples)
    return out


def densities(programs, folder, event):
    """The two rows by which files are compared: a build, and a service."""
    target = folder / "target"

    def build():
        # The same part of the same build every time.
        subprocess.run(["rm", "-rf", target], check=True)
        command = f"timeout 40 cargo build --quiet --workspace --target-dir {target} >/dev/null 2>&1 || true"
        return ["sh", "-c", command]

    def service():
        return [HERE / "service.py", "20"]

    print(f"\n{'bytes per sample, one run each':34}{'icecore':>12}{'perf':>12}{'perf -z':>12}{'ratio':>8}{'ratio -z':>10}")
    for title, workload, rate in [
        ("real build, 40 s at 999 Hz", build, "999"),
        ("steady service, 20 s at 999 Hz", service, "999"),
        ("steady service, 20 s at 99 Hz", service, "99"),
    ]:
        out = density(programs, folder, workload, event, rate)
        own = out["icecore"][0]
        cells = "".join(f"{out[tool][0]:>12.1f}" for tool in ("icecore", "perf", "perf -z"))
        ratios = f"{own / out['perf'][0]:>8.2f}{own / out['perf -z'][0]:>10.2f}"
        counts = ", ".join(f"{out[tool][1]:,}" for tool in ("icecore", "perf", "perf -z"))
        print(f"{title:34}{cells}{ratios}   of {counts} samples")


def main():
    programs = Path(sys.argv[1]).resolve()
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if os.geteuid() != 0:
        sys.exit("compare: recording needs privileges: run as root")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload = [HERE.parent / "workload.sh", folder / "work"]
        probe = folder / "probe.icecore"
        subprocess.run([programs / "icecore-record", "-a", "-q", "-d", "0.2", "-o", probe], check=True)
        event = summary(programs / "icecore-report", probe)["events"][0]["name"]
        results = [one_run(programs, folder, workload, event) for _ in range(runs)]
    print(f"system-wide, {event} at {RATE} Hz, frame-pointer stacks, tests/workload.sh; medians of {runs} runs")
    print(f"{'':34}{'icecore':>12}{'perf':>12}{'perf -z':>12}{'ratio':>8}{'ratio -z':>10}")
    rows = [
        ("samples", "samples", 1, "{:.0f}"),
        ("lost", "lost", 1, "{:.0f}"),
        ("file, bytes per sample", "bytes", 1, "{:.1f}"),
        ("recorder CPU, µs per sample", "cpu", 1, "{:.2f}"),
        ("recorder peak memory, MiB", "rss", 1 << 20, "{:.1f}"),
        ("report (top, cold), s", "report", 1, "{:.2f}"),
        ("report peak memory, MiB", "report_rss", 1 << 20, "{:.1f}"),
    ]
    for title, key, unit, form in rows:
        median = {
            tool: statistics.median(result[tool][key] for result in results) / unit
            for tool in results[0]
            if key in results[0][tool]
        }
        cells = [form.format(median[tool]) if tool in median else "" for tool in ("icecore", "perf", "perf -z")]
        ratios = [
            f"{median['icecore'] / median[tool]:.2f}" if median.get(tool) and key not in ("samples", "lost") else ""
            for tool in ("perf", "perf -z")
        ]
        print(f"{title:34}{cells[0]:>12}{cells[1]:>12}{cells[2]:>12}{ratios[0]:>8}{ratios[1]:>10}")
    print("ratio: icecore divided by perf; below 1 is better. perf's samples include idle CPUs, icecore's do not;\n"
          "files are without the names of functions in images (--embed), of which perf.data has none")
    with tempfile.TemporaryDirectory() as name:
        densities(programs, Path(name), event)


if __name__ == "__main__":
    main()
