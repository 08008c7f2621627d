#!/usr/bin/env python3
"""Measures the page of `icecore-report html` beside a picture and a profile for the Firefox Profiler of the same samples.

usage: page.py FOLDER-WITH-PROGRAMS [--profile] [THOUSANDS-OF-SAMPLES ...]

The recordings are synthetic (tests/bench/synthesize.rs): 50,000 distinct stacks, 10,496 functions. tests/page/bench.mjs drives
the browser, headless, and says what it measures. `cargo test -p icecore-tests --test page` installs the packages that it needs.
"""

import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Profiles with one JSON object for each sample take too long beyond.
MOST_OF_FIREFOX = 1_000


def mib(size):
    return f"{size / 2**20:.2f}"


def firefox(programs, recording, output):
    """Returns the size of a profile for the Firefox Profiler, plain and as samply stores it (.json.gz)."""
    samples = subprocess.Popen([programs / "icecore-report", "samples", recording, "--json", "-q"], stdout=subprocess.PIPE)
    subprocess.run([programs / "examples" / "firefox", output], stdin=samples.stdout, check=True)
    if samples.wait() != 0:
        raise SystemExit("icecore-report samples failed")
    plain = output.read_bytes()
    return len(plain), len(gzip.compress(plain, 6))


def measured(page, profiles):
    bench = Path(__file__).parents[1] / "page" / "bench.mjs"
    options = ["--profile"] if profiles else []
    out = subprocess.run(["node", bench, *options, page], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def row(programs, folder, thousands, profiles):
    recording, page, picture = (folder / f"r.{name}" for name in ("icecore", "html", "svg"))
    subprocess.run(
        [programs / "synthesize", str(thousands * 1_000), recording, "names"], check=True, stdout=subprocess.DEVNULL
    )
    report = [programs / "icecore-report", "-q"]
    begin = time.monotonic()
    subprocess.run([*report, "html", recording, "-o", page, "--force"], check=True, stdout=subprocess.DEVNULL)
    wrote = time.monotonic() - begin
    subprocess.run([*report, "flame", recording, "-o", picture, "--force"], check=True, stdout=subprocess.DEVNULL)
    peer = ("–", "–")
    if thousands <= MOST_OF_FIREFOX:
        peer = tuple(map(mib, firefox(programs, recording, folder / "r.json")))
    seen = measured(page, profiles)
    memory = f"{mib(seen['heap_bytes'] + seen['arrays_bytes'])} / {mib(seen['later_bytes'])}"
    spread = "{median:.0f} / {longest:.0f}".format
    sizes = (mib(recording.stat().st_size), mib(page.stat().st_size), mib(picture.stat().st_size), *peer)
    print(
        f"{thousands * 1_000:>10,}" + "".join(f"{size:>10}" for size in sizes) + f"{wrote:>9.1f}{seen['shown_ms'] / 1e3:>9.2f}"
        f"{spread(**seen['zoom_ms']):>12}{spread(**seen['filter_ms']):>14}{memory:>20}",
        flush=True,
    )
    print(" " * 10 + "  views, ms: " + ", ".join(f"{name} {ms}" for name, ms in seen["views_ms"].items()), flush=True)


def main():
    programs = Path(sys.argv[1]).resolve()
    profiles = "--profile" in sys.argv
    sizes = [int(word) for word in sys.argv[2:] if word != "--profile"] or [10, 100, 1_000]
    print("sizes in MiB; Firefox: the processed profile that samply writes, plain and gzip -6; zoom: ms between two pictures,")
    print("filter: ms until another part is shown, median / longest; memory of the page: at first / after all filters and views, MiB")
    heads = ["samples", "recording", "page", "SVG", "Firefox", ".gz"]
    print("".join(f"{head:>10}" for head in heads) + f"{'write s':>9}{'shown s':>9}{'zoom ms':>12}{'filter ms':>14}{'memory':>20}")
    with tempfile.TemporaryDirectory() as name:
        for thousands in sizes:
            row(programs, Path(name), thousands, profiles)


main()
