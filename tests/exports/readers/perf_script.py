"""Reads text of `perf script` by the importers of profiler-cli and of speedscope; inferno's is a crate, and its test is in Rust."""

import re

from . import Sums, version
from .firefox import Loaded, summed
from .speedscope import shown, summed as shown_sums

HEAD = re.compile(r"^(\S.*?)\s+(\d+)/(\d+)\s+(?:\[(-?\d+)\]\s+)?(\d+\.\d+):\s+(\d+)\s+(\S+):\s*$")
FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \((.*)\)$")


def read(options):
    """Sums of the text itself are the result; the importers count samples, without weights, and are in the facts."""
    sums, facts = text_sums(options.file)
    with Loaded(options.file) as loaded:
        counted, other = summed(loaded)
    facts["profiler_cli"] = {"totals": counted.totals, "functions": counted.functions, "threads": other["threads"]}
    page = shown(options.file)
    found = shown_sums(page)
    units = {it["name"]: it["unit"] for it in page["profiles"]}
    facts["speedscope"] = {"totals": found.totals, "functions": found.functions, "units": units}
    consumers = [f"profiler-cli {version('@firefox-devtools/profiler-cli')}", f"speedscope {page['version']}"]
    return sums.result("; ".join(consumers), facts)


def text_sums(file):
    sums, counts, threads, modules, odd, inlined = Sums(), Sums(), {}, set(), [], 0
    head, stack = None, []
    for line in [*open(file, encoding="utf-8"), "\n"]:
        line = line.rstrip("\n")
        if not line.strip():
            if head:
                # Innermost first in the text.
                names = stack[::-1]
                sums.add(head[7], names, int(head[6]))
                counts.add(head[7], names, 1)
                threads.setdefault(f"{head[1]} {head[2]}/{head[3]}", 0)
                threads[f"{head[1]} {head[2]}/{head[3]}"] += 1
            head, stack = None, []
        elif head is None:
            head = HEAD.match(line)
            if head is None and not line.startswith("#"):
                odd.append(line)
        elif found := FRAME.match(line):
            stack.append(re.sub(r"\+0x[0-9a-f]+$", "", found[2]))
            inlined += found[3] == "inlined"
            modules.add(found[3])
        else:
            odd.append(line)
    facts = {"threads": threads, "modules": sorted(modules), "odd_lines": odd[:20], "inlined": inlined,
             "samples": {"totals": counts.totals, "functions": counts.functions}}
    return sums, facts
