"""Reads a profile of Callgrind by callgrind_annotate, which comes with Valgrind."""

import re

from . import Sums, run

ROW = re.compile(r"^\s*([\d,]+|\.)  (\S.*)$")
RECURSION = re.compile(r"'(\d+)$")


def read(options):
    events, header, known, inlined, objects = scan(options.file)
    sums = Sums()
    for event in events:
        own, total = rows(options.file, event, known), rows(options.file, event, known, "--inclusive=yes")
        # One row of zeros is as good as none.
        sums.functions[event] = functions = {}
        for name, cost, _ in own["rows"]:
            entry = functions.setdefault(bare(name), [0, 0])
            entry[0] += cost
        for name, cost, what in total["rows"]:
            # The outermost call has the cost of all that it calls, so `f'2` adds nothing to `f`; nor does what was inlined from another file.
            if bare(name) == name and what not in inlined:
                functions.setdefault(name, [0, 0])[1] += cost
        sums.totals[event] = own["total"]
    facts = {
        "header": header, "events": events, "recursions": sorted(name for name in known.values() if bare(name) != name),
        "objects": sorted(objects), "warnings": own["said"],
    }
    return sums.result(f"callgrind_annotate of {run(['valgrind', '--version']).strip()}", facts)


def bare(name):
    """Callgrind calls the second occurrence of `f` in a stack `f'2`."""
    return RECURSION.sub("", name)


def scan(file):
    """The events and the header of a file, and its functions by the texts that callgrind_annotate prints for them."""
    tables, header, events, known, inlined = {"ob": {}, "fl": {}, "fn": {}}, {}, [], {}, {}
    at = {"ob": "", "fl": "", "cfi": "", "fn": ""}
    kinds = {"ob": "ob", "cob": "ob", "fl": "fl", "fi": "fl", "fe": "fl", "cfi": "fl", "cfl": "fl", "fn": "fn", "cfn": "fn"}
    for line in open(file, encoding="utf-8"):
        line = line.rstrip("\n")
        if found := re.match(r"^(\w+):\s*(.*)$", line):
            if found[1] == "events":
                events = found[2].split()
            header.setdefault(found[1], []).append(found[2])
        elif found := re.match(r"^(c?ob|f[lie]|cf[il]|c?fn)=(?:\((\d+)\))?\s*(.*)$", line):
            key, kind = found[1], kinds[found[1]]
            if found[2] and found[3]:
                tables[kind][found[2]] = found[3]
            name = found[3] or tables[kind].get(found[2], "")
            if key == "fn":
                at["fn"] = name
            if key in ("fn", "cfn"):
                # A function that is only called is shown without its object.
                file, object = (at["fl"], at["ob"]) if key == "fn" else (at["cfi"], "")
                known[f"{file}:{name} [{object}]" if object else f"{file}:{name}"] = name
            elif key == "cob":
                continue
            else:
                at["cfi" if key.startswith("c") else kind] = name
                if key in ("fi", "fe"):
                    # What was inlined from another file is a row of its own.
                    inlined[f"{name}:{at['fn']}"] = inlined[f"{name}:{at['fn']} [{at['ob']}]"] = at["fn"]
    inlined = {what: name for what, name in inlined.items() if what not in known}
    return events, header, {**inlined, **known}, inlined, tables["ob"].values()


def rows(file, event, known, *args):
    # In `/`: it cuts the current folder from the files of functions, but not from those of called ones.
    whole = ["--threshold=100", "--show-percs=no", "--auto=no"]
    text = run(["callgrind_annotate", *whole, f"--show={event}", f"--sort={event}", *args, file], cwd="/")
    found, total = [], 0
    for line in text.splitlines():
        if row := ROW.match(line):
            cost, what = 0 if row[1] == "." else int(row[1].replace(",", "")), row[2].strip()
            if what.startswith("PROGRAM TOTALS"):
                total = cost
            elif what in known:
                found.append((known[what], cost, what))
            elif what != "file:function":
                raise SystemExit(f"callgrind_annotate shows `{what}`, which is no function of the file")
    return {"rows": found, "total": total, "said": [line for line in text.splitlines() if "WARNING" in line]}
