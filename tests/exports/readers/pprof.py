"""Reads pprof by `go tool pprof`, and by npm's pprof-format for exact numbers and for what Go does not print."""

import json
import re

from . import HERE, PACKAGES, Sums, differences, folder, node, run

NUMBER = r"-?[\d.]+(?:[eE][-+]?\d+)?"
# flat flat% sum% cum cum% name; a number may have a unit at its end.
ROW = re.compile(rf"^\s*({NUMBER})\D*?\s+{NUMBER}%\s+{NUMBER}%\s+({NUMBER})\D*?\s+{NUMBER}%  (.*)$")
SHARE = re.compile(rf"^\s*({NUMBER})\D*?\s+{NUMBER}% \|\s+(.*)$")
SELF = re.compile(rf"^\s*({NUMBER})\D*?\s+{NUMBER}%\s+{NUMBER}%\s+({NUMBER})\D*?\s+{NUMBER}%\s+\| (.*)$")
ALL = ["-nodecount=0", "-nodefraction=0", "-edgefraction=0"]


def number(text):
    value = float(text)
    return int(value) if value == int(value) else value


def read(options):
    decoded = json.loads(run([node(), HERE / "pprof.mjs", PACKAGES, options.file]))
    with folder() as home:
        env = {"HOME": home, "PPROF_TMPDIR": home, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "PPROF_BINARY_PATH": home}

        def pprof(*args):
            return run(["go", "tool", "pprof", "-symbolize=none", *args, options.file], env, home)

        sums, wrong, headers = Sums(), [], {}
        for at, (kind, exact) in enumerate(zip(decoded["types"], decoded["sums"])):
            name = kind["type"]
            sums.totals[name] = exact["total"]
            sums.functions[name] = {}
            text = pprof("-top", *ALL, f"-sample_index={at}", f"-unit={kind['unit']}")
            for own, total, function in rows(text, exact["functions"]):
                sums.merge(name, function, own, total)
            headers[name] = text.splitlines()[:text.splitlines().index("      flat  flat%   sum%        cum   cum%")]
            wrong += [f"{name}: {it}" for it in differences(sums.functions[name], exact["functions"], ("-top", "pprof-format"))]
        raw = raw_sums(pprof("-raw"), decoded["types"])
        for kind, exact, total in zip(decoded["types"], decoded["sums"], raw["totals"]):
            if exact["total"] != total:
                wrong.append(f"{kind['type']}: the sum is {total} in -raw, {exact['total']} in pprof-format")
        # What a user sees: Go symbolizes, and shortens names whose system name is the same.
        plain = run(["go", "tool", "pprof", "-top", *ALL, "-sample_index=0", options.file], env, home)
        shown = {name for _, _, name in rows(plain, decoded["sums"][0]["functions"])}
        renamed = sorted(shown - set(decoded["sums"][0]["functions"]))
        facts = {key: decoded[key] for key in decoded if key not in ("sums", "version")}
        facts |= {
            "units": {kind["type"]: kind["unit"] for kind in decoded["types"]},
            "lines": {kind["type"]: exact["lines"] for kind, exact in zip(decoded["types"], decoded["sums"])},
            "default": raw["default"], "header": headers, "differences": wrong, "renamed_by_symbolizing": renamed,
            "go_comments": pprof("-comments").splitlines(),
        }
        if options.peek:
            facts["peek"] = peek(pprof(f"-peek={options.peek}", *ALL, f"-sample_index={options.event}",
                                       f"-unit={decoded['types'][options.event]['unit']}"))
        go = run(["go", "version"]).split()[2]
    return sums.result(f"go tool pprof of {go}; pprof-format {decoded['version']}", facts)


def rows(text, known):
    """Rows of `-top`: self, total, name. Go writes `(inline)` after the name of an inlined function."""
    for line in text.splitlines():
        if found := ROW.match(line):
            yield number(found[1]), number(found[2]), bare(found[3], known)


def bare(name, known=()):
    for end in (" (inline)", " (partial-inline)"):
        if name not in known and name.endswith(end):
            return name.removesuffix(end)
    return name


def raw_sums(text, types):
    """Sums over the samples that `-raw` lists, and the type that it marks as the default one."""
    totals, default, lines = [0] * len(types), "", iter(text.splitlines())
    for line in lines:
        if line == "Samples:":
            head = next(lines)
            default = next((it["type"] for it in types if f"{it['type']}/{it['unit']}[dflt]" in head), "")
            break
    for line in lines:
        if line == "Locations":
            break
        if found := re.match(r"^((?:\s+-?\d+)+): [\d ]*$", line):
            totals = [total + int(value) for total, value in zip(totals, found[1].split())]
    return {"totals": totals, "default": default}


def peek(text):
    """Callers and callees of the functions that `-peek` shows: {NAME: {"callers": {NAME: n}, "callees": ...}}."""
    found = {}
    for block in text.split("----------------------------------------------------------+-------------")[2:]:
        callers, callees, name = {}, {}, None
        for line in block.splitlines():
            if row := SELF.match(line):
                name = row[3]
            elif row := SHARE.match(line):
                (callers if name is None else callees)[bare(row[2])] = number(row[1])
        if name is not None:
            found[name] = {"callers": callers, "callees": callees}
    return found
