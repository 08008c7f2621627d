#!/usr/bin/env python3
"""Reads a file that `icecore-report export` wrote by programs that others wrote for its format, and prints what these say.

    target/engines/test/bin/python tests/exports/read.py FORMAT FILE [OPTION...]

    --peek REGEX          pprof: the callers and callees of these functions, too
    --event NUMBER        pprof: `--peek` counts by this sample type (0)
    --symbol-server URL   firefox: names come from there; FILE may be a URL, so what `serve` gives is read likewise
    --leaf-first          csv, parquet: a column with stacks has the innermost function first

Prints one JSON document:

    {"consumer": "NAME VERSION; ...", "totals": {EVENT: number}, "functions": {EVENT: {NAME: [self, total]}}, "facts": {...}}

EVENT is what the format calls an event: a sample type, a profile, the type of a thread's weights. Numbers are in the unit of the
file. A function counts once in a stack. Where a consumer keeps functions of one name apart (by file or library), their numbers are
added; if the format's reader can tell, `facts.same_names` lists such names. Anything that a consumer complains of is in
`facts.wrong`, `facts.differences` or the like, which are empty for a good file. If a consumer refuses the file, this program ends
with 1 and says what the consumer said.

What each reader uses, and what it proves:

    pprof        `go tool pprof` -top for each sample type, -raw, -comments, -peek; npm's pprof-format. Proves that both decode
                 the file to equal sums, which functions have which lines, and which names Go changes when it symbolizes.
    firefox      Mozilla's profiler-cli, the loader and the sums of Firefox Profiler without its window: functions of each thread,
                 markers with fields and stacks, counters, meta. The loader checks no index, so this reader does.
    speedscope   The page of speedscope in headless Chromium: sums out of its own objects, and its table of functions as it shows
                 it. The schema that speedscope publishes, by jsonschema.
    callgrind    callgrind_annotate of Valgrind, for each event: self, and total by --inclusive=yes. `f'2` is added to `f`.
    perf-script  The text itself, with periods; profiler-cli and speedscope, which import it and count samples. inferno, whose
                 library has no program here, reads it in the Rust test.
    folded       speedscope and profiler-cli, which must agree with the text.
    perfetto     Perfetto's own messages from PyPI: its importer, trace_processor, is downloaded at first use, so no test can have
                 it. Proves that all references resolve by the importer's rules, and the sums, but not that the importer takes it.
    otlp         OpenTelemetry's own messages and service from PyPI: the rules of profcheck, and sums of what a gRPC receiver got.
    csv, parquet DuckDB and polars, which must agree in each cell.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

READERS = {
    "pprof": "pprof", "firefox": "firefox", "speedscope": "speedscope", "callgrind": "callgrind", "perf-script": "perf_script",
    "folded": "folded", "perfetto": "perfetto", "otlp": "otlp", "csv": "tables", "parquet": "tables",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("format", choices=READERS)
    parser.add_argument("file")
    parser.add_argument("--peek", metavar="REGEX")
    parser.add_argument("--event", metavar="NUMBER", type=int, default=0)
    parser.add_argument("--symbol-server", metavar="URL")
    parser.add_argument("--leaf-first", action="store_true")
    options = parser.parse_args()
    if "://" not in options.file:
        # Some of the programs run in other folders.
        options.file = str(Path(options.file).resolve())
    # Only the packages of the format are loaded.
    reader = importlib.import_module(f"readers.{READERS[options.format]}")
    print(json.dumps(reader.read(options), ensure_ascii=False, default=str))


if __name__ == "__main__":
    main()
