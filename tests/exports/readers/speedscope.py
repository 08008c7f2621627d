"""Reads what the page of speedscope loads in a headless browser, and checks its own format by the schema that it publishes."""

import gzip
import json
import os
import shutil
from pathlib import Path

import jsonschema

from . import HERE, PACKAGES, Sums, folder, node, run, version

SCHEMA = PACKAGES / "node_modules/speedscope/dist/release/file-format-schema.json"
BROWSERS = ["chromium", "google-chrome", "google-chrome-stable", "chrome", "chromium-browser"]


def read(options):
    page = shown(options.file)
    facts = {key: page[key] for key in ("title", "name", "active", "browser", "said", "rows")}
    facts["units"] = {it["name"]: it["unit"] for it in page["profiles"]}
    facts["profiles"] = [it["name"] for it in page["profiles"]]
    facts["same_names"] = same_names(page)
    facts["schema"] = validated(options.file)
    return summed(page).result(f"speedscope {page['version']}; jsonschema {jsonschema.__version__}", facts)


def browser():
    named = os.environ.get("ICECORE_BROWSER")
    found = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        raise SystemExit(f"there is no browser here: none of {', '.join(BROWSERS)}. Run tests/setup.sh, or name one by ICECORE_BROWSER")
    return found


def shown(file):
    """What the page holds of a file, of any format that speedscope imports."""
    # Browsers that are snaps read no file in `/tmp`.
    below = PACKAGES if os.access(PACKAGES, os.W_OK) else None
    with folder(below) as made:
        return json.loads(run([node(), HERE / "speedscope.mjs", PACKAGES, made, file], {"ICECORE_READ_BROWSER": browser()}))


def summed(page):
    sums = Sums()
    for profile in page["profiles"]:
        name = profile["name"]
        sums.totals[name] = sums.totals.get(name, 0) + profile["total"]
        sums.functions.setdefault(name, {})
        for frame in profile["frames"]:
            sums.merge(name, frame["name"], frame["self"], frame["total"])
    return sums


def same_names(page):
    """Names of several frames in a profile: the page has a row for each of them."""
    found = set()
    for profile in page["profiles"]:
        names = [frame["name"] for frame in profile["frames"]]
        found |= {name for name in names if names.count(name) > 1}
    return sorted(found)


def validated(file):
    """The errors that the schema finds, and what the file has that the page does not show."""
    data = Path(file).read_bytes()
    document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    schema = json.loads(SCHEMA.read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    errors = [f"{it.json_path}: {it.message[:300]}" for it in kind(schema).iter_errors(document)]
    frames = document["shared"]["frames"]
    return {
        "errors": errors[:20], "exporter": document.get("exporter"), "frames": len(frames),
        "with_file": sum("file" in it for it in frames), "with_line": sum("line" in it for it in frames),
        "shapes": all(len(it["samples"]) == len(it["weights"]) for it in document["profiles"] if it["type"] == "sampled"),
        "ends": {it["name"]: [it["startValue"], it["endValue"]] for it in document["profiles"]},
    }
