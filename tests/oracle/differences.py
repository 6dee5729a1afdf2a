"""Random chains of differences, and their changes recomputed from the definitions: the answer anew at every event.

Nothing here knows levels, codes or states: an event is a row that comes or one that expires; after each of them every
window is filled from all rows so far, and the sets are subtracted with plain Python.
"""

import decimal
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from midstream.migrate.request import MigrationRequest

SECOND = 1_000_000
Row = dict[str, Any]
Formula = tuple[str, Callable[[Row], Any]]
"""SQL text with {} for the alias, and what it means."""

NUMBERS: list[Formula] = [
    ("{}.k", lambda r: r["k"]),
    ("{}.k", lambda r: r["k"]),
    ("{}.k", lambda r: r["k"]),
    ("{}.k + 1", lambda r: None if r["k"] is None else r["k"] + 1),
    ("coalesce({}.k, 0)", lambda r: 0 if r["k"] is None else r["k"]),
    ("{}.p", lambda r: r["p"]),
    ("{}.x", lambda r: r["x"]),
    ("{}.d", lambda r: r["d"]),
    ("CASE WHEN {}.p = 0 THEN {}.k END", lambda r: r["k"] if r["p"] == 0 else None),
    ("1", lambda r: 1),
    ("1.5", lambda r: 1.5),
    ("NULL", lambda r: None),
]
TEXTS: list[Formula] = [
    ("{}.s", lambda r: r["s"]),
    ("{}.s", lambda r: r["s"]),
    ("upper({}.s)", lambda r: None if r["s"] is None else r["s"].upper()),
    ("coalesce({}.s, 'a')", lambda r: "a" if r["s"] is None else r["s"]),
    ("'a'", lambda r: "a"),
    ("NULL", lambda r: None),
]
CONDITIONS: list[Formula] = [
    ("{}.p < 2", lambda r: r["p"] is not None and r["p"] < 2),
    ("{}.k IS NOT NULL", lambda r: r["k"] is not None),
    ("{}.s = 'a' OR {}.k > 0", lambda r: r["s"] == "a" or (r["k"] is not None and r["k"] > 0)),
    ("{}.k IN (0, 1, 3)", lambda r: r["k"] in (0, 1, 3)),
    ("NOT ({}.k = 1)", lambda r: r["k"] is not None and r["k"] != 1),
    ("1 < 2", lambda r: True),
    ("1 > 2", lambda r: False),
]


@dataclass
class Side:
    """One SELECT of a chain."""

    alias: str
    stream: str
    window: tuple[str, int, list[str]]
    """("range", width_us, []) or ("rows", count, partition columns)."""
    values: list[Formula]
    conditions: list[Formula]

    @property
    def sql(self) -> str:
        kind, size, by = self.window
        partition = f" PARTITION BY {', '.join(by)}" if by else ""
        window = f"[RANGE {size} MICROSECONDS]" if kind == "range" else f"[ROWS {size}{partition}]"
        select = ", ".join(f"{self._text(v)} AS o{k}" for k, v in enumerate(self.values))
        where = " AND ".join(f"({self._text(c)})" for c in self.conditions)
        alias = "" if self.alias == self.stream else f" {self.alias}"
        return f"SELECT {select} FROM {self.stream} {window}{alias}{f' WHERE {where}' if where else ''}"

    def _text(self, formula: Formula) -> str:
        return formula[0].replace("{}", self.alias)

    def value(self, row: Row) -> tuple[Any, ...] | None:
        """Return what is selected from a row, or None when the conditions drop it."""
        kept = all(meaning(row) for _, meaning in self.conditions)
        return tuple(same(meaning(row)) for _, meaning in self.values) if kept else None


@dataclass
class DifferenceCase:
    """A chain of differences, its streams and the order it starts with."""

    streams: dict[str, pa.Table]
    sides: list[Side]
    tree: str
    parenthesized: bool = False
    join: str = "auto"
    requests: list[MigrationRequest] = field(default_factory=list)

    @property
    def sql(self) -> str:
        if not self.parenthesized:
            return " EXCEPT ".join(s.sql for s in self.sides)
        text = f"({self.sides[0].sql})"
        for side in self.sides[1:]:
            text = f"({text} EXCEPT ({side.sql}))"
        return text

    def __str__(self) -> str:
        return f"{self.sql} | {self.tree} | {[(r.plan, r.at_us, r.strategy) for r in self.requests]}"


def draw_difference(rnd: random.Random, most_rows: int = 40) -> DifferenceCase:
    """Draw a chain of 2-5 streams with 0-5 migrations; the answer rarely stays empty."""
    case = _draw(rnd, most_rows)
    return case if rnd.random() < 0.05 or recompute_changes(case) else draw_difference(rnd, most_rows)


def _draw(rnd: random.Random, most_rows: int) -> DifferenceCase:
    aliases = [f"q{i}" for i in range(rnd.choice([2, 3, 3, 4, 4, 5]))]
    names = [f"s{i}" for i in range(rnd.choice([len(aliases), len(aliases), rnd.randint(1, len(aliases))]))]
    rnd.shuffle(names)  # declaration order is not the order of the chain
    keys, nulls = rnd.choice([2, 4, 8, 16]), rnd.choice([0.0, 0.1, 0.3])
    span, step = rnd.choice([2, 8, 20]) * SECOND, rnd.choice([1, 1000, 500_000])
    streams = {n: _draw_rows(rnd, rnd.randint(most_rows // 4, most_rows), keys, nulls, span, step) for n in names}
    if rnd.random() < 0.05:
        streams[names[0]] = streams[names[0]].slice(0, 0)
    kinds = rnd.choice([[NUMBERS], [NUMBERS], [TEXTS], [NUMBERS, TEXTS], [NUMBERS, TEXTS, NUMBERS]])
    plain = rnd.random() < 0.5
    sides = []
    for place, alias in enumerate(aliases):
        stream = names[place] if len(names) == len(aliases) else rnd.choice(names)
        values = [kind[0] if plain else rnd.choice(kind) for kind in kinds]
        conditions = rnd.sample(CONDITIONS, rnd.choice([0, 0, 0, 1, 2]))
        sides.append(Side(alias, stream, _draw_window(rnd, place > 0), values, conditions))
    if len(names) == len(aliases) and rnd.random() < 0.5:
        for side in sides:
            side.alias = side.stream
    case = DifferenceCase(streams, sides, draw_order(rnd, sides), rnd.random() < 0.3)
    case.requests = _draw_requests(rnd, case, span)
    return case


def _draw_rows(rnd: random.Random, count: int, keys: int, nulls: float, span: int, step: int) -> pa.Table:
    times = sorted(rnd.randrange(span) // step * step for _ in range(count))

    def some(values: list[Any]) -> list[Any]:
        return [None if rnd.random() < nulls else v for v in values]

    numbers = [rnd.randrange(keys) for _ in times]
    texts = [["", "a", "b", "A", "a long string that is no short one", "Ünï"][n % 6] for n in numbers]
    floats = [rnd.choice([0.0, -0.0, 1.0, 1.5, 2.0, math.nan]) for _ in times]
    decimals = [decimal.Decimal(rnd.choice([0, 50, 100, 150, 200])) / 100 for _ in times]
    return pa.table(
        {
            "ts": pa.array(times, rnd.choice([pa.int64(), pa.timestamp("us")])),
            "k": pa.array(some(numbers), rnd.choice([pa.int64(), pa.int32(), pa.int8()])),
            "s": pa.array(some(texts), pa.string()),
            "x": pa.array(some(floats), rnd.choice([pa.float64(), pa.float32()])),
            "d": pa.array(some(decimals), rnd.choice([pa.decimal128(6, 2), pa.decimal128(25, 3)])),
            "p": pa.array(some([rnd.randrange(3) for _ in times]), pa.int16()),
        }
    )


def _draw_window(rnd: random.Random, narrow: bool) -> tuple[str, int, list[str]]:
    """Draw a window; narrow ones let the answer change more often."""
    if rnd.random() < 0.55:
        widths = [0, 1000, 400_000, SECOND, 3 * SECOND, 8 * SECOND, 60 * SECOND]
        return "range", rnd.choice(widths[:5] if narrow else widths[1:]), []
    counts = [1, 2, 3, 7, 15]
    return "rows", rnd.choice(counts[:3] if narrow else counts), rnd.choice([[], [], ["p"], ["s"], ["x", "p"]])


def draw_order(rnd: random.Random, sides: list[Side]) -> str:
    """Draw an order of the chain: the first side stays first."""
    others = [s.alias for s in sides[1:]]
    text = sides[0].alias
    for alias in rnd.sample(others, len(others)):
        text = f"({text} {alias})"
    return text


def _draw_requests(rnd: random.Random, case: DifferenceCase, span: int) -> list[MigrationRequest]:
    close, start = rnd.random() < 0.5, rnd.randrange(span)
    times = [start + rnd.randrange(span // 10) if close else rnd.randrange(span) for _ in range(rnd.randint(0, 5))]
    return [
        MigrationRequest(draw_order(rnd, case.sides), rnd.choice(["auto", "just-in-time"]), at_us, f"{k}")
        for k, at_us in enumerate(sorted(times))
    ]


def same(value: Any) -> Any:
    """Make NaN equal to itself, -0.0 to 0.0, and numbers of any kind comparable."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


Key = tuple[int, int, int]
"""The place of an event: time, 0 for what expires or 1 for what comes, sequence number."""


@dataclass(frozen=True)
class Arrival:
    """A row under one alias."""

    key: Key
    side: int
    value: tuple[Any, ...] | None
    part: tuple[Any, ...]


def recompute_changes(case: DifferenceCase) -> list[tuple[Any, ...]]:
    """Return the changes of the answer: what is selected, time, sign."""
    arrivals = arrivals_of(case)
    expirations = [end for a in arrivals if (end := _end(case, a)) is not None and end <= arrivals[-1].key]
    answer: set[tuple[Any, ...]] = set()
    changes = []
    for event in sorted([*(a.key for a in arrivals), *expirations]):
        now = answer_after(case, arrivals, event)
        assert len(answer - now) <= 1, "one event takes one value away at most"
        changes += [(*value, event[0], -1) for value in answer - now]
        changes += [(*value, event[0], 1) for value in now - answer]
        answer = now
    return changes


def answer_after(case: DifferenceCase, arrivals: list[Arrival], event: Key) -> set[tuple[Any, ...]]:
    """Return the difference of what is in the windows after an event."""
    sets = []
    for number, side in enumerate(case.sides):
        kind, size, _ = side.window
        mine = [a for a in arrivals if a.side == number and a.key <= event]
        inside = [a for a in mine if (_end(case, a) or event) > event]
        if kind == "rows":
            parts: dict[tuple[Any, ...], list[Arrival]] = {}
            for a in mine:
                parts.setdefault(a.part, []).append(a)
            inside = [a for rows in parts.values() for a in rows[-size:]]
        sets.append({a.value for a in inside if a.value is not None})
    return sets[0].difference(*sets[1:])


def _end(case: DifferenceCase, arrival: Arrival) -> Key | None:
    """Return when a row expires: before all that comes at that time; None when its window counts rows."""
    kind, width, _ = case.sides[arrival.side].window
    return (arrival.key[0] + width + 1, 0, arrival.key[2]) if kind == "range" else None


def arrivals_of(case: DifferenceCase) -> list[Arrival]:
    """Return all rows under all aliases in order: by time, stream in declaration order, offset, alias."""
    declared = list(case.streams)
    found = []
    for number, side in enumerate(case.sides):
        by = side.window[2]
        for offset, row in enumerate(case.streams[side.stream].to_pylist()):
            place = (micros(row["ts"]), declared.index(side.stream), offset, number)
            found.append((place, number, side.value(row), tuple(same(row[c]) for c in by)))
    found.sort(key=lambda f: f[0])
    return [Arrival((place[0], 1, seq), number, value, part) for seq, (place, number, value, part) in enumerate(found)]


def micros(time: Any) -> int:
    """Return an event time as integer microseconds."""
    return time if isinstance(time, int) else int(pa.scalar(time, pa.timestamp("us")).value)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return changes as they were emitted, without their version."""
    names = [n for n in table.column_names if n != "_version"]
    return list(zip(*([same(v) for v in table.column(n).to_pylist()] for n in names), strict=True))
