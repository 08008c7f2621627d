#!/usr/bin/env python3
"""Asks the questions of docs/FLEET.md, and compares the answers with what `icecore-report` says of the recordings.

usage: questions.py ENGINE[,ENGINE...] TABLES RECORDINGS REPORT

ENGINE      duckdb, chdb or spark; answers of several are compared with each other, too.
TABLES      the folder that `icecore-report parquet RECORDINGS/* -o TABLES` has written
RECORDINGS  the folder of the recordings: those of `synthesize fleet`, of 62 days and 8 hosts or more
REPORT      icecore-report

No expected answer comes from the tables: truth.py computes them from `samples` and `info`. DuckDB also compares the table `function`, and
what follows from `sample` and `stack`, with `top` of every fifth recording. Prints a line for each comparison, and fails with what differs.
"""

import hashlib
import json
import math
import os
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import truth

PAGE = Path(__file__).resolve().parents[2] / "docs/FLEET.md"
# The mark of blocks for one engine.
DIALECTS = {"duckdb": "duckdb", "chdb": "clickhouse", "spark": "spark"}
WRONG = []


def check(differences, text):
    print(("ok " if not differences else "NO ") + text, flush=True)
    WRONG.extend(differences)
    for difference in differences[:5]:
        print(f"     {difference}")


def blocks(dialect):
    """The SQL below each heading of the page: the block for this engine, or that for all."""
    found = {}
    for heading, text in re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        marked = dict(re.findall(r"^```sql *(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        if marked:
            found[heading] = marked[dialect] if dialect in marked else marked[""]
    return found


def duckdb():
    import duckdb
    connection = duckdb.connect()
    return lambda sql: connection.execute(sql).fetchall()


def chdb():
    from chdb import session
    opened = session.Session()

    def ask(sql):
        said = str(opened.query(sql, "JSONCompact"))
        return [tuple(row) for row in json.loads(said)["data"]] if said else []
    return ask


def spark():
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.simplefilter("ignore", FutureWarning)
    from pyspark.sql import SparkSession
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # Small answers need no 200 partitions.
        "spark.sql.shuffle.partitions": "2",
        # Else Spark makes a folder here.
        "spark.sql.warehouse.dir": tempfile.gettempdir(),
    }
    opened = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    return lambda sql: [tuple(row) for row in opened.sql(sql).collect()]


ENGINES = {"duckdb": duckdb, "chdb": chdb, "spark": spark}


def value(of_engine):
    """A value as engines have it in common: dates are texts."""
    return of_engine if isinstance(of_engine, (int, float, str, type(None))) else str(of_engine)


def same(one, other):
    if isinstance(one, float) or isinstance(other, float):
        return None not in (one, other) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return one == other


def differences(rows, expected):
    """What differs between two answers, row by row."""
    if not rows:
        return ["the answer is empty"]
    pairs = enumerate(zip_longest(rows, expected))
    return [f"row {at}: {row}\n     expected {wanted}" for at, (row, wanted) in pairs
            if row is None or wanted is None or len(row) != len(wanted) or not all(map(same, row, wanted))]


def questions(engine, ask, sql, expected):
    """Asks all questions; returns the answers."""
    answers = {}
    for heading, text in sql.items():
        begun = time.monotonic()
        rows = [tuple(map(value, row)) for row in ask(text)]
        answers[heading] = rows
        told = f"{engine:6} {heading}: {len(rows)} rows, {time.monotonic() - begun:.2f} s"
        check(differences(rows, expected[heading]), told)
    return answers


FUNCTIONS = """
SELECT r.uuid, f.event, f.inlined, f.function_name, f.image, f.self, f.total, f.self_samples, f.samples
FROM function f JOIN recording r ON r.recording_id = f.recording_id"""
FROM_STACKS = """
SELECT r.uuid, s.event, {inlined}, u.function_name, u.image, SUM(s.weight), COUNT(*)
FROM sample s JOIN recording r ON r.recording_id = s.recording_id
JOIN (SELECT DISTINCT ON (stack_id) stack_id, functions FROM stack) t ON t.stack_id = s.stack_id, UNNEST(t.functions) x(u)
WHERE {inlined} OR NOT u.inlined
GROUP BY ALL"""


def functions(ask, recordings):
    """Compares the functions of recordings with `top` of each event, row by row."""
    wanted = {recording.uuid for recording in recordings if recording.tops}
    tops = [(recording.uuid, event, inlined, row) for recording in recordings
            for (event, inlined), rows in recording.tops.items() for row in rows]
    expected = Counter((*key, row["name"], row["image"], row["self"], row["total"], row["self_samples"], row["total_samples"])
                       for *key, row in tops)
    told = f"duckdb {sum(expected.values())} rows of `function` are those of `top` and `top --by inlined` of {len(wanted)} recordings"
    check(unequal(Counter(row for row in ask(FUNCTIONS) if row[0] in wanted), expected), told)
    expected = Counter((*key, row["name"], row["image"], row["total"], row["total_samples"]) for *key, row in tops)
    rows = (row for inlined in ("false", "true") for row in ask(FROM_STACKS.format(inlined=inlined)))
    found = Counter(row for row in rows if row[0] in wanted)
    check(unequal(found, expected), f"duckdb {sum(found.values())} totals of `top` follow from `sample` and `stack`")


FRAMES = "SELECT DISTINCT ON (stack_id) stack_id, frames FROM stack"
SAMPLES = """
SELECT r.uuid, epoch_us(s.time), s.event, s.pid, s.tid, s.thread_name, s.cgroup, s.cpu, s.weight, s.wait_kind, s.walk_end, s.stack_id
FROM sample s JOIN recording r ON r.recording_id = s.recording_id"""


def samples(ask, recordings):
    """Compares all samples and their frames with `samples`."""
    sides = {"native": "user", "kernel": "kernel"}
    stacks = {stack: tuple((it["function_name"], it["image"], sides[it["frame_type"]], it["inlined"], it["file"], it["line"])
                           for it in frames) for stack, frames in ask(FRAMES)}
    found = Counter((*rest, stacks[stack]) for *rest, stack in ask(SAMPLES))
    expected = Counter(
        (recording.uuid, (recording.start_ns + it["time_ns"]) // 1000, it["event"], it["tgid"], it["tid"], it["comm"], it["cgroup"],
         it["cpu"], it["weight"], it.get("wait", {}).get("kind"), it["ended"], tuple(map(tuple, it["frames"])))
        for recording in recordings for it in recording.samples)
    check(unequal(found, expected), f"duckdb the {sum(expected.values())} rows of `sample`, with their frames, are those of `samples`")


def hashed(*parts):
    """The id of these parts, as docs/FLEET.md has it."""
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def stack_id(frames):
    known = hashed()
    for it in reversed(frames):
        texts = (it[key] or "" for key in ("function_name", "image", "build_id", "frame_type", "file"))
        known = hashed(known.to_bytes(8, "little"), *(text.encode() for text in texts), (it["line"] or 0).to_bytes(8, "little"),
                       bytes([it["inlined"], it["guessed"]]))
    return known


def ids(ask):
    """Computes all ids again. None of these files has several sessions."""
    recordings, stacks = ask("SELECT recording_id, uuid FROM recording"), ask(FRAMES)
    wrong = [f"recording {uuid}: {number}" for number, uuid in recordings if hashed(bytes.fromhex(uuid), bytes(4)) != number]
    wrong += [f"stack {number}: {frames}" for number, frames in stacks if stack_id(frames) != number]
    check(wrong if recordings and stacks else ["no rows"], f"duckdb {len(recordings)} recordings and {len(stacks)} stacks have their ids")


def unequal(found, expected):
    if not found or not expected:
        return ["no rows"]
    return [f"only in the tables: {row}" for row in found - expected] + [f"only in the report: {row}" for row in expected - found]


def main():
    engines, (tables, folder, report) = sys.argv[1].split(","), [Path(path).resolve() for path in sys.argv[2:]]
    recordings = truth.read(sorted(folder.glob("*.icecore")), report, with_tops="duckdb" in engines)
    expected = truth.answers(recordings)
    check(truth.unknown(expected), "the answers show what is true of the fleet by construction")
    first = None
    for engine in engines:
        begun = time.monotonic()
        ask, sql = ENGINES[engine](), blocks(DIALECTS[engine])
        for statement in sql.pop("Views").replace("tables/", f"{tables}/").split(";\n"):
            if statement.strip():
                ask(statement)
        # The ninth question has three forms.
        [months] = [heading for heading in sql if heading.startswith("9.")]
        for period in ("week", "day"):
            sql[f"{months}, by {period}"] = sql[months].replace("'month'", f"'{period}'")
        if set(sql) != set(expected):
            sys.exit(f"docs/FLEET.md and truth.py have other questions: {sorted(set(sql) ^ set(expected))}")
        answers = questions(engine, ask, sql, expected)
        if engine == "duckdb":
            functions(ask, recordings)
            samples(ask, recordings)
            ids(ask)
        if first:
            differ = [f"{heading}: {line}" for heading in sql for line in differences(answers[heading], first[1][heading])]
            check(differ, f"{engine:6} answers as {first[0]}")
        first = first or (engine, answers)
        print(f"   {engine}: {time.monotonic() - begun:.1f} s", flush=True)
    sys.exit(1 if WRONG else 0)


if __name__ == "__main__":
    main()
