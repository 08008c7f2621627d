"""Reads folded stacks by the importers of speedscope and of profiler-cli."""

from . import Sums, differences, version
from .firefox import Loaded, summed
from .speedscope import shown, summed as shown_sums

# profiler-cli makes a sample of each count.
AT_MOST = 1_000_000


def read(options):
    sums, facts = Sums(), {"lines": 0, "odd_lines": []}
    for line in open(options.file, encoding="utf-8"):
        stack, _, count = line.rstrip("\n").rpartition(" ")
        facts["lines"] += 1
        if stack and count.isdigit():
            sums.add("folded", stack.split(";"), int(count))
        else:
            facts["odd_lines"].append(line)
    page = shown(options.file)
    found = shown_sums(page)
    [(name, functions)] = found.functions.items()
    facts["differences"] = differences(sums.functions["folded"], functions, ("the text", "speedscope"))
    if found.totals[name] != sums.totals["folded"]:
        facts["differences"].append(f"the sum is {sums.totals['folded']} in the text, {found.totals[name]} in speedscope")
    consumers = [f"speedscope {page['version']}"]
    if sums.totals["folded"] <= AT_MOST:
        with Loaded(options.file) as loaded:
            counted, _ = summed(loaded)
        facts["differences"] += differences(sums.functions["folded"], counted.functions["samples"], ("the text", "profiler-cli"))
        consumers.append(f"profiler-cli {version('@firefox-devtools/profiler-cli')}")
    facts["speedscope"] = {"totals": found.totals, "functions": found.functions}
    return sums.result("; ".join(consumers), facts)
