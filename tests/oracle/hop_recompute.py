"""The answers of hopping queries, from the definition: plain SQL over the windows at each hop, in DuckDB.

HopCase ──▶ .sql in our dialect          ──▶ the engine
        └─▶ recompute: DuckDB, hop by hop ──▶ what the engine is to emit
"""

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache

import duckdb
import pyarrow as pa

from oracle.hop_queries import COLUMNS, INT, REAL, TEXT, HopCase, Row, Stream, Window, query_text, times_of
from oracle.own_class import IN_DUCKDB

FOREVER = 2**62
DUCKDB_TYPES = {INT: "BIGINT", REAL: "DOUBLE", TEXT: "VARCHAR"}

Answer = tuple[int, Counter[Row]]
"""A hop and its rows; of a delta, the sign is the last value of each."""


def in_window(table: pa.Table, window: Window, hop: int) -> list[int]:
    """Return the numbers of the rows that are in a window at a hop, straight from the definition."""
    times = times_of(table)
    if not window.rows:
        return [i for i, t in enumerate(times) if hop - window.width_us <= t < hop]
    parts: dict[Row, list[int]] = {}
    keys = list(zip(*(table.column(c).to_pylist() for c in window.by), strict=True)) or [()] * len(times)
    for i, time in enumerate(times):
        if time < hop:
            parts.setdefault(keys[i], []).append(i)
    return sorted(i for rows in parts.values() for i in rows[-window.rows :])


def last_times(table: pa.Table, window: Window) -> list[int]:
    """Return for each row the last T at which it is in its window; the first one is after its own time."""
    times = times_of(table)
    if not window.rows:
        return [t + window.width_us for t in times]
    keys = list(zip(*(table.column(c).to_pylist() for c in window.by), strict=True)) or [()] * len(times)
    later: dict[Row, list[int]] = {}
    out = []
    for time, key in zip(reversed(times), reversed(keys), strict=True):
        later_times = later.setdefault(key, [])
        out.append(later_times[-window.rows] if len(later_times) >= window.rows else FOREVER)
        later_times.append(time)
    return out[::-1]


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """Return the one connection of this process."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
    con.execute(IN_DUCKDB)
    return con


def snapshots(case: HopCase) -> Iterator[Answer]:
    """Yield the whole answer at every hop: the query over what the windows hold then."""
    con = connection()
    windows = case.windows
    lives = [last_times(case.streams[name], window) for name, window in windows]
    for name in {n for n, _ in windows}:
        table = case.streams[name]
        table = table.append_column("_t", pa.array(times_of(table), pa.int64()))
        for number, (of, _) in enumerate(windows):
            if of == name:
                table = table.append_column(f"_last{number}", pa.array(lives[number], pa.int64()))
        con.register("_rows", table)
        # -0.0 and 0.0 are one value; adding zero makes them one.
        con.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * REPLACE (x + 0.0::DOUBLE AS x) FROM _rows")
        con.unregister("_rows")

    def held(stream: Stream) -> str:
        last = f"_last{windows.index((stream.name, stream.window))}"
        columns = ", ".join(["ts", *COLUMNS])
        return f"(SELECT {columns} FROM {stream.name} WHERE _t < $1::BIGINT AND $1::BIGINT <= {last}) {stream.alias}"

    columns = [f"c{i}" for i in range(len(case.kinds))]
    casts = ", ".join(f"CAST({c} AS {DUCKDB_TYPES[k]})" for c, k in zip(columns, case.kinds, strict=True))
    text = f"SELECT {casts} FROM ({query_text(case.body, held)}) AS answer({', '.join(columns)})"
    con.execute(f"PREPARE answer AS {text}")
    comings = [times_of(case.streams[name]) for name, _ in windows]
    before, answer = None, Counter[Row]()
    for hop in case.hops:
        held_now = [
            [i for i, (come, last) in enumerate(zip(times, ends, strict=True)) if come < hop <= last]
            for times, ends in zip(comings, lives, strict=True)
        ]
        if held_now != before:  # the same windows have the same answer
            answer = Counter(plain(row) for row in con.execute(f"EXECUTE answer({hop})").fetchall())
            before = held_now
        yield hop, answer


def recompute(case: HopCase) -> list[Answer]:
    """Return what the query emits at every hop, also where that is nothing."""
    if case.emit == "complete":
        return list(snapshots(case))
    out, before = [], Counter[Row]()
    for hop, answer in snapshots(case):
        delta = Counter({(*row, 1): n for row, n in (answer - before).items()})
        delta.update({(*row, -1): n for row, n in (before - answer).items()})
        out.append((hop, delta))
        before = answer
    return out


def plain(row: Row) -> Row:
    """Make a row comparable: NaN equals itself, -0.0 is 0.0."""
    return tuple(("nan" if math.isnan(v) else v + 0.0) if isinstance(v, float) else v for v in row)
