#!/usr/bin/env python3
"""What tables of recordings take: bytes of each sample, the rate of writing, and the CPU time of one question to three of them.

usage: tables.py FOLDER-WITH-PROGRAMS

Needs DuckDB: `tests/setup.sh test` installs it into target/engines/test. Two data sets of a million samples: a fleet (1,000 recordings,
few stacks) and one large recording (many stacks). The question is the total of each function, counted once for each stack. `list` is
what other profilers keep, made of `sample` and `stack`: the frames in the row of each sample. All three answers must be the same.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

RUNS = 5
TABLES = ["recording", "function", "stack", "sample", "image", "counter"]
CPU_CLOCK = "event = 'cpu-clock'"
# Frames without inlined ones; what lies outermost was inlined into nothing that is known.
PHYSICAL = "list_filter(frames, lambda frame, number: NOT frame.inlined OR number = len(frames))"
QUESTIONS = {
    "function": f"SELECT function_name, image, SUM(total) FROM function WHERE {CPU_CLOCK} AND NOT inlined GROUP BY ALL",
    "sample and stack": f"""
        SELECT code.function_name, code.image, SUM(weight)
        FROM (SELECT stack_id, SUM(weight) AS weight FROM sample WHERE {CPU_CLOCK} GROUP BY stack_id)
        JOIN (SELECT DISTINCT ON (stack_id) stack_id, functions FROM stack) USING (stack_id), UNNEST(functions) each(code)
        WHERE NOT code.inlined
        GROUP BY ALL""",
    "list": f"""
        SELECT code.function_name, code.image, SUM(weight)
        FROM (SELECT weight, list_distinct(list_transform({PHYSICAL}, lambda frame:
            {{function_name: frame.function_name, image: frame.image}})) AS codes FROM list WHERE {CPU_CLOCK}), UNNEST(codes) each(code)
        GROUP BY ALL""",
}


def cpu_s(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def run(*command):
    """Runs a program; returns what it printed, its CPU seconds and wall seconds."""
    cpu, wall = cpu_s(resource.RUSAGE_CHILDREN), time.monotonic()
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return said, cpu_s(resource.RUSAGE_CHILDREN) - cpu, time.monotonic() - wall


def ask(connection, sql):
    """The rows of an answer, and the CPU seconds of it: the least of several runs, as the first one reads the files."""
    taken = []
    for _ in range(RUNS):
        begun = cpu_s(resource.RUSAGE_SELF)
        rows = sorted(connection.execute(sql).fetchall(), key=str)
        taken.append(cpu_s(resource.RUSAGE_SELF) - begun)
    return rows, min(taken)


def measure(name, report, recordings, folder):
    said, cpu, wall = run(report, "parquet", "--json", "-q", "--no-cache", *recordings, "-o", folder)
    written = {table["table"]: table for table in json.loads(said)["tables"]}
    connection = duckdb.connect()
    for table in written:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{folder}/{table}/**/*.parquet')")
    wide = folder / "list.parquet"
    connection.execute(f"""
        COPY (SELECT sample.*, frames FROM sample JOIN (SELECT DISTINCT ON (stack_id) stack_id, frames FROM stack) USING (stack_id))
        TO '{wide}' (FORMAT parquet, COMPRESSION zstd)""")
    connection.execute(f"CREATE VIEW list AS SELECT * FROM read_parquet('{wide}')")
    samples = written["sample"]["rows"]
    stored = sum(path.stat().st_size for path in recordings)
    print(f"{name}: {samples:,} samples, {len(recordings):,} recordings of {stored / samples:.1f} B/sample")
    print(f"  written: {samples / wall / 1e6:.2f} million samples a second, {cpu / samples * 1e6:.1f} CPU s for a million")
    sizes = {table: (written[table]["rows"], written[table]["files"], written[table]["bytes"]) for table in TABLES if table in written}
    sizes["list"] = samples, 1, wide.stat().st_size
    print(f"  {'table':17}{'rows':>10}{'files':>7}{'B/sample':>10}{'B/row':>8}")
    for table, (rows, files, size) in sizes.items():
        print(f"  {table:17}{rows:10,}{files:7}{size / samples:10.2f}{size / rows:8.1f}")
    print(f"  {'total by function':27}{'CPU ms':>7}{'rows':>10}")
    answers = []
    for source, sql in QUESTIONS.items():
        rows, seconds = ask(connection, sql)
        answers.append(rows)
        print(f"  from {source:22}{seconds * 1e3:7.0f}{len(rows):10,}", flush=True)
    if not answers[0] or any(rows != answers[0] for rows in answers):
        sys.exit(f"{name}: the answers differ")


def main():
    programs = Path(sys.argv[1]).resolve()
    report, synthesize = programs / "icecore-report", programs / "synthesize"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(synthesize, "fleet", folder / "fleet", "25", "20", "667")
        measure("fleet", report, sorted((folder / "fleet").iterdir()), folder / "of-fleet")
        large = folder / "large.icecore"
        run(synthesize, "1000000", large, "names")
        measure("one recording", report, [large], folder / "of-large")


if __name__ == "__main__":
    main()
