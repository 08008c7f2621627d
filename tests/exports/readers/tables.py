"""Reads a table, CSV or Parquet, by DuckDB and by polars, which must agree."""

from pathlib import Path

import duckdb
import polars

from . import Sums, differences

NAMES = {
    "function": ["function_name", "function", "name"], "event": ["event"], "self": ["self", "self_value", "self_weight"],
    "total": ["total", "total_value", "total_weight"], "stack": ["stack", "frames"], "weight": ["weight", "value", "period"],
    "leaf": ["leaf_function", "leaf"],
}


def read(options):
    kind = "parquet" if options.format == "parquet" else "csv"
    by_duckdb, types = duckdb_rows(options.file, kind)
    by_polars, polars_types = polars_rows(options.file, kind)
    columns = list(types)
    at = {key: next((name for name in names if name in columns), None) for key, names in NAMES.items()}
    facts = {
        "rows": len(by_duckdb), "columns": types, "polars_columns": polars_types, "differences": [],
        "sums": sums_of(by_duckdb), "nulls": nulls_of(by_duckdb),
    }
    if list(polars_types) != columns:
        facts["differences"].append(f"columns are {columns} in DuckDB, {list(polars_types)} in polars")
    if kind == "csv":
        facts["crlf"] = b"\r\n" in Path(options.file).read_bytes()
    for column in columns:
        one, other = ([row.get(column) for row in rows] for rows in (by_duckdb, by_polars))
        if one != other:
            pair = next(((a, b) for a, b in zip(one, other) if a != b), (len(one), len(other)))
            facts["differences"].append(f"{column}: {pair[0]!r} in DuckDB, {pair[1]!r} in polars")
    sums, again = table_sums(by_duckdb, at, options), table_sums(by_polars, at, options)
    for event in sums.functions:
        facts["differences"] += differences(sums.functions[event], again.functions.get(event, {}), ("DuckDB", "polars"))
    facts["differences"] = facts["differences"][:20]
    facts["read_as"] = {key: name for key, name in at.items() if name}
    facts["values"] = {column: found for column in columns if (found := few(by_duckdb, column)) is not None}
    return sums.result(f"DuckDB {duckdb.__version__}; polars {polars.__version__}", facts)


def duckdb_rows(file, kind):
    # Nothing is guessed about the form of CSV but the types: a comma, quotes that are doubled, a header.
    reader = {
        "parquet": "read_parquet($file, hive_partitioning = false)",
        "csv": "read_csv($file, header = true, delim = ',', quote = '\"', escape = '\"', sample_size = -1, auto_detect = true)",
    }[kind]
    with duckdb.connect() as database:
        found = database.execute(f"SELECT * FROM {reader}", {"file": file})
        types = {it[0]: str(it[1]) for it in found.description}
        return [dict(zip(types, row)) for row in found.fetchall()], types


def polars_rows(file, kind):
    if kind == "parquet":
        table = polars.read_parquet(file, hive_partitioning=False)
    else:
        table = polars.read_csv(file, infer_schema_length=None)
    return table.to_dicts(), {name: str(kind) for name, kind in table.schema.items()}


def table_sums(rows, at, options):
    """Sums of a table of functions (self and total), or of one of samples (a stack and a weight)."""
    sums = Sums()
    for row in rows:
        event = str(row[at["event"]]) if at["event"] else "all"
        if at["function"] and at["self"] and at["total"]:
            sums.totals[event] = sums.totals.get(event, 0) + row[at["self"]]
            sums.merge(event, row[at["function"]] or "", row[at["self"]], row[at["total"]])
        elif at["stack"]:
            sums.add(event, stack(row[at["stack"]], options.leaf_first), row[at["weight"]] if at["weight"] else 1)
    return sums


def stack(value, leaf_first):
    """Names of a stack, outermost first: of `a;b`, or of a list of names or of structs with a function."""
    if value is None:
        return []
    if isinstance(value, str):
        value = value.split(";")
    names = [it if isinstance(it, str) else next((it[name] for name in NAMES["function"] if name in it), "") for it in value]
    return names[::-1] if leaf_first else names


def sums_of(rows):
    found = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found[name] = found.get(name, 0) + value
    return found


def nulls_of(rows):
    found = {}
    for row in rows:
        for name, value in row.items():
            if value is None:
                found[name] = found.get(name, 0) + 1
    return found


def few(rows, column, at_most=50):
    """The distinct values of a column, where these are few texts or truths."""
    found = set()
    for row in rows:
        if not isinstance(row[column], (str, bool)):
            return None
        found.add(row[column])
        if len(found) > at_most:
            return None
    return sorted(found)
