"""The oracle: the output of a case recomputed from scratch from the definitions, with DuckDB for the predicates.

Nothing here knows plans, batches, buckets or states: rows get their sequence numbers by sorting, counted windows are
counted by hand, and the join is one SQL statement over the whole recorded input.
"""

import math

import duckdb
import pyarrow as pa

from oracle.generate import Case

FOREVER = 2**62


def times_of(table: pa.Table) -> list[int]:
    """Return event times as integer microseconds."""
    return table.column("ts").cast(pa.int64()).to_pylist()


def number_rows(case: Case) -> dict[str, list[int]]:
    """Give every row of every alias its sequence number: by time, stream in declaration order, offset, alias."""
    declared = list(case.streams)
    places = []
    for rank, (alias, stream) in enumerate(case.sources):
        for offset, time in enumerate(times_of(case.streams[stream])):
            places.append((time, declared.index(stream), offset, rank, alias))
    seqs: dict[str, list[int]] = {alias: [0] * case.streams[stream].num_rows for alias, stream in case.sources}
    for seq, (_, _, offset, _, alias) in enumerate(sorted(places)):
        seqs[alias][offset] = seq
    return seqs


def evictions(table: pa.Table, seqs: list[int], count: int, by: list[str]) -> list[int]:
    """Return the sequence number of the row that pushes each row out of its counted window."""
    keys = [tuple(_same(v) for v in row.values()) for row in table.select(by).to_pylist()] if by else [()] * len(seqs)
    out = []
    for i, key in enumerate(keys):
        later = [seqs[j] for j in range(i + 1, len(seqs)) if keys[j] == key]
        out.append(later[count - 1] if len(later) >= count else FOREVER)
    return out


def _same(value: object) -> object:
    """Make NaN equal to itself and -0.0 to 0.0, as in the comparison of values."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def recompute(case: Case) -> pa.Table:
    """Return the output of a case, in max order, with `_time`."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
    seqs = number_rows(case)
    conditions = [f"({c})" for c in case.conditions]
    names = [alias for alias, _ in case.sources]
    latest = f"greatest({', '.join(f'{a}._seq' for a in names)})"
    now = f"greatest({', '.join(f'{a}._t' for a in names)})"
    for alias, stream in case.sources:
        table = case.streams[stream]
        kind, size, by = case.windows[alias]
        out = evictions(table, seqs[alias], size, by) if kind == "rows" else [FOREVER] * table.num_rows
        for name, values in (("_seq", seqs[alias]), ("_t", times_of(table)), ("_out", out)):
            table = table.append_column(name, pa.array(values, pa.int64()))
        con.register(alias, table)
        if kind == "range":
            conditions.append(f"{now} - {alias}._t <= {size}")
        else:
            conditions.append(f"{latest} < {alias}._out")
    if len(names) == 1:
        conditions = conditions[:-1]  # a row standing alone is emitted when it arrives, whatever its window
    select = ", ".join(f"{text} AS {name}" for name, text in case.outputs)
    where = " AND ".join(conditions) or "TRUE"
    order = ", ".join([latest, *(f"{a}._seq" for a in names)])
    sql = f"SELECT {select}, {now} AS _time FROM {', '.join(names)} WHERE {where} ORDER BY {order}"
    return con.sql(sql).to_arrow_table()


def plain(table: pa.Table, schema: pa.Schema) -> list[tuple[object, ...]]:
    """Return rows as plain values that compare with ==, after a cast to the given types."""
    columns = [table.column(f.name).cast(f.type, safe=False).to_pylist() for f in schema]
    return [tuple(_same(v) for v in row) for row in zip(*columns, strict=True)]
