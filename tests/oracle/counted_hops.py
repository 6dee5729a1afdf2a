"""The answers of queries that hop by rows, from the definition: plain SQL over the windows after every n-th row.

All rows of the streams that are read, in order of time, stream, offset ──▶ a cut after every n-th ──▶ DuckDB
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from oracle.hop_queries import COLUMNS, HopCase, Row, Stream, Window, query_text, times_of
from oracle.hop_recompute import DUCKDB_TYPES, connection, plain

Answer = tuple[int, int, Counter[Row]]
"""How many rows there were, the time of the last one, and the rows of the answer; of a delta, with their signs."""


@dataclass(frozen=True)
class CountedCase(HopCase):
    """A case that hops after every `hop_rows` rows."""

    hop_rows: int = 1

    @property
    def sql(self) -> str:
        emit = "" if self.silent and self.emit == "complete" else f" EMIT {self.emit.upper()}"
        return f"{query_text(self.body, lambda s: s.sql)} HOP BY {self.hop_rows} ROWS{emit}"


def counted(case: HopCase, hop_rows: int) -> CountedCase:
    """Return a case that counts rows instead of time."""
    fields = {name: getattr(case, name) for name in HopCase.__dataclass_fields__}
    return CountedCase(**fields, hop_rows=hop_rows)


def in_order(case: CountedCase) -> list[tuple[int, int, str, int]]:
    """Return the rows that are counted: time, stream, its name, offset."""
    read = {name for name, _ in case.windows}
    places = [(n, name) for n, name in enumerate(case.streams) if name in read]
    return sorted((t, n, name, o) for n, name in places for o, t in enumerate(times_of(case.streams[name])))


def snapshots(case: CountedCase) -> Iterator[Answer]:
    """Yield the whole answer after every n-th row."""
    con, windows, rows = connection(), case.windows, in_order(case)

    def held(stream: Stream) -> str:
        return f"w{windows.index((stream.name, stream.window))} {stream.alias}"

    columns = [f"c{i}" for i in range(len(case.kinds))]
    casts = ", ".join(f"CAST({c} AS {DUCKDB_TYPES[k]})" for c, k in zip(columns, case.kinds, strict=True))
    text = f"SELECT {casts} FROM ({query_text(case.body, held)}) AS answer({', '.join(columns)})"
    for count in range(case.hop_rows, len(rows) + 1, case.hop_rows):
        last_us = rows[count - 1][0]
        come = Counter(name for _, _, name, _ in rows[:count])
        for number, (name, window) in enumerate(windows):
            table = case.streams[name].slice(0, come[name])
            con.register("_rows", table.take(pa.array(inside(table, window, last_us), pa.int64())))
            picked = ", ".join(["ts", *COLUMNS])
            con.execute(
                f"CREATE OR REPLACE TABLE w{number} AS SELECT {picked} FROM "
                "(SELECT * REPLACE (x + 0.0::DOUBLE AS x) FROM _rows)"
            )
            con.unregister("_rows")
        yield count, last_us, Counter(plain(row) for row in con.execute(text).fetchall())


def inside(table: pa.Table, window: Window, last_us: int) -> list[int]:
    """Return the numbers of the rows, of those that have come, that are in a window."""
    times = times_of(table)
    if not window.rows:
        return [i for i, t in enumerate(times) if last_us - window.width_us < t]
    parts: dict[Row, list[int]] = {}
    for i, key in enumerate(zip(*(table.column(c).to_pylist() for c in window.by), strict=True) if window.by else ()):
        parts.setdefault(key, []).append(i)
    parts = parts if window.by else {(): list(range(len(times)))}
    return sorted(i for mine in parts.values() for i in mine[-window.rows :])


def recompute(case: CountedCase) -> list[Answer]:
    """Return what the query emits after every n-th row."""
    out, before = [], Counter[Row]()
    for count, last_us, answer in snapshots(case):
        if case.emit == "complete":
            out.append((count, last_us, answer))
            continue
        delta = Counter({(*row, 1): n for row, n in (answer - before).items()})
        delta.update({(*row, -1): n for row, n in (before - answer).items()})
        out.append((count, last_us, delta))
        before = answer
    return out
