"""Random hopping queries, and their answers recomputed from the definition: plain SQL over the windows at each hop.

    draw_case ──▶ HopCase ──▶ .sql in our dialect          ──▶ the engine
                          └─▶ recompute: DuckDB, hop by hop ──▶ what the engine is to give out

A query is a small tree with two ways to write a stream: with its window behind it, or, for DuckDB, as the rows that are
in that window at T. All else is text that both read alike. Nothing here knows plans, modes or states.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa

FOREVER = 2**62
INT, REAL, TEXT = "int", "real", "text"
COLUMNS = {"k": INT, "v": INT, "x": REAL, "s": TEXT}
COLUMN = r"[a-z_]\w*\.(\w+)"
DUCKDB_TYPES = {INT: "BIGINT", REAL: "DOUBLE", TEXT: "VARCHAR"}
KINDS = ("select", "distinct", "join", "absent", "set", "subquery", "group", "aggregate", "pushable")
"""What a drawn query is at its root; below it anything may be."""
MOST_ROWS = 800
"""How many rows an answer, or a join below it, may be expected to have."""

Row = tuple[Any, ...]
Answer = tuple[int, Counter[Row]]
"""A hop and its rows; of a delta, the sign is the last value of each."""


# Queries -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """`rows` of the stream, per value of `by`, or if that is 0 the `width_us` before the hop."""

    width_us: int = 0
    rows: int = 0
    by: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        partition = f" PARTITION BY {', '.join(self.by)}" if self.by else ""
        return f"[ROWS {self.rows}{partition}]" if self.rows else f"[RANGE {duration(self.width_us)}]"


@dataclass(frozen=True)
class Stream:
    """A stream in FROM; `behind` writes the window behind the alias."""

    name: str
    window: Window
    alias: str
    behind: bool = False

    @property
    def sql(self) -> str:
        if self.alias == self.name:
            return f"{self.name} {self.window.sql}"
        return (
            f"{self.name} {self.alias} {self.window.sql}"
            if self.behind
            else f"{self.name} {self.window.sql} {self.alias}"
        )

    @property
    def columns(self) -> dict[str, str]:
        return COLUMNS


@dataclass(frozen=True)
class Derived:
    """A subquery in FROM."""

    body: "Body"
    alias: str

    @property
    def columns(self) -> dict[str, str]:
        return dict(zip(names_of(self.body), kinds_of(self.body), strict=True))


@dataclass(frozen=True)
class Output:
    """An entry of a select list; one without AS is a column under its own name."""

    text: str
    kind: str
    name: str

    @property
    def sql(self) -> str:
        own = re.fullmatch(COLUMN, self.text)
        return self.text if own and own[1] == self.name else f"{self.text} AS {self.name}"


@dataclass(frozen=True)
class Absent:
    """NOT EXISTS: no row of the stream makes the conditions true."""

    item: Stream
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Select:
    """One SELECT. `on` has the conditions that each item brings; `explicit` writes them behind JOIN."""

    outputs: tuple[Output, ...]
    items: tuple["Item", ...]
    on: tuple[tuple[str, ...], ...]
    where: tuple[str, ...] = ()
    absent: tuple[Absent, ...] = ()
    distinct: bool = False
    keys: tuple[str, ...] = ()
    having: str = ""
    explicit: bool = False


@dataclass(frozen=True)
class SetOperation:
    """Two queries under EXCEPT or UNION, with or without ALL; `bare` leaves out parentheses that change nothing."""

    op: str
    left: "Body"
    right: "Body"
    bare: bool = False


Item = Stream | Derived
Body = Select | SetOperation


def duration(us: int) -> str:
    """Write a duration.

    >>> duration(1_500_000), duration(60_000_000), duration(7)
    ('1500 MILLISECONDS', '60 SECONDS', '7 MICROSECONDS')
    """
    scale, unit = next(
        (s, u) for s, u in ((10**6, "SECONDS"), (1000, "MILLISECONDS"), (1, "MICROSECONDS")) if us % s == 0
    )
    return f"{us // scale} {unit}"


def kinds_of(body: Body) -> tuple[str, ...]:
    """Return what the columns of a query are: integers with reals are reals."""
    if isinstance(body, Select):
        return tuple(o.kind for o in body.outputs)
    pairs = zip(kinds_of(body.left), kinds_of(body.right), strict=True)
    return tuple(a if a == b else REAL for a, b in pairs)


def names_of(body: Body) -> tuple[str, ...]:
    return tuple(o.name for o in body.outputs) if isinstance(body, Select) else names_of(body.left)


def streams_of(body: Body) -> Iterator[Stream]:
    """Yield every place where a stream is read."""
    if isinstance(body, SetOperation):
        yield from streams_of(body.left)
        yield from streams_of(body.right)
        return
    for item in body.items:
        yield from [item] if isinstance(item, Stream) else streams_of(item.body)
    yield from (a.item for a in body.absent)


def query_text(body: Body, stream: Callable[[Stream], str]) -> str:
    """Write a query, streams as the given function writes them."""
    if isinstance(body, SetOperation):
        left, right = query_text(body.left, stream), query_text(body.right, stream)
        if not body.bare:
            left = f"({left})"
        if not (body.bare and isinstance(body.right, Select)):
            right = f"({right})"
        return f"{left} {body.op} {right}"

    def item_text(item: Item) -> str:
        return stream(item) if isinstance(item, Stream) else f"({query_text(item.body, stream)}) {item.alias}"

    first, *others = body.items
    source, where = item_text(first), list(body.where)
    for item, conditions in zip(others, body.on[1:], strict=True):
        if not body.explicit:
            source += f", {item_text(item)}"
            where += conditions
        elif conditions:
            source += f" JOIN {item_text(item)} ON {' AND '.join(conditions)}"
        else:
            source += f" CROSS JOIN {item_text(item)}"
    for absent in body.absent:
        within = f" WHERE {' AND '.join(absent.conditions)}" if absent.conditions else ""
        where.append(f"NOT EXISTS (SELECT 1 FROM {stream(absent.item)}{within})")
    text = f"SELECT {'DISTINCT ' * body.distinct}{', '.join(o.sql for o in body.outputs)} FROM {source}"
    text += f" WHERE {' AND '.join(where)}" if where else ""
    text += f" GROUP BY {', '.join(body.keys)}" if body.keys else ""
    return text + (f" HAVING {body.having}" if body.having else "")


# Cases ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HopCase:
    """Recorded streams (`ts`, `k`, `v`, `x`, `s`, in order of time), a hopping query, and how the engine runs it."""

    kind: str
    streams: dict[str, pa.Table]
    body: Body
    hop_us: int
    emit: str
    """`complete` or `delta`."""
    batch_us: int
    buckets: int
    silent: bool = False
    """Whether EMIT COMPLETE is left out."""

    @property
    def sql(self) -> str:
        emit = "" if self.silent and self.emit == "complete" else f" EMIT {self.emit.upper()}"
        return f"{query_text(self.body, lambda s: s.sql)} HOP BY {duration(self.hop_us)}{emit}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return what the output columns are: `int`, `real` or `text`."""
        return kinds_of(self.body)

    @property
    def names(self) -> tuple[str, ...]:
        return names_of(self.body)

    @property
    def windows(self) -> list[tuple[str, Window]]:
        """Return every window of the query, with the stream it is on, once."""
        return list(dict.fromkeys((s.name, s.window) for s in streams_of(self.body)))

    @property
    def hops(self) -> list[int]:
        """Return when the query answers: the multiples behind the first row it reads, up to the last one."""
        times = [t for name in {n for n, _ in self.windows} for t in times_of(self.streams[name])]
        if not times:
            return []
        return list(range((min(times) // self.hop_us + 1) * self.hop_us, max(times) + 1, self.hop_us))

    def __str__(self) -> str:
        hops = self.hops
        lines = [f"{self.sql}", f"batch {self.batch_us} us, {self.buckets} buckets"]
        lines.append(f"hop {self.hop_us} us, {len(hops)} hops, from {hops[0]} to {hops[-1]}" if hops else "no hops")
        for name, table in self.streams.items():
            used = ", ".join(w.sql for n, w in self.windows if n == name)
            if not used:
                lines.append(f"{name} is not read")
                continue
            values = zip(times_of(table), *(table.column(c).to_pylist() for c in COLUMNS), strict=True)
            lines.append(f"{name} ({used}) ts, {', '.join(COLUMNS)}: {list(values)}")
        return "\n" + "\n".join(lines)


def times_of(table: pa.Table) -> list[int]:
    """Return event times as integer microseconds."""
    times: list[int] = table.column("ts").cast(pa.int64()).to_pylist()
    return times


# The oracle ----------------------------------------------------------------------------------------------------------


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
    """Return for each row the last T at which it is in its window; the first one is behind its own time."""
    times = times_of(table)
    if not window.rows:
        return [t + window.width_us for t in times]
    keys = list(zip(*(table.column(c).to_pylist() for c in window.by), strict=True)) or [()] * len(times)
    later: dict[Row, list[int]] = {}
    out = []
    for time, key in zip(reversed(times), reversed(keys), strict=True):
        behind = later.setdefault(key, [])
        out.append(behind[-window.rows] if len(behind) >= window.rows else FOREVER)
        behind.append(time)
    return out[::-1]


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """Return the one connection of this process."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
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
    """Return what the query gives out at every hop, also where that is nothing."""
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


# Draws ---------------------------------------------------------------------------------------------------------------


def draw_case(rnd: random.Random, kind: str | None = None, rows: int = 60) -> HopCase:
    """Draw a case, of one of `KINDS` if it is given, with streams of about `rows` rows at most."""
    kind = kind or rnd.choice(KINDS)
    most = rows
    while True:
        case = _Draw(rnd, most).case(kind)
        if _weight(case, case.body)[1] > MOST_ROWS:
            most = max(6, most * 3 // 4)
        elif rnd.random() < 0.12 or any(answer for _, answer in snapshots(case)):  # few are to say nothing at all
            return case


def _weight(case: HopCase, body: Body) -> tuple[float, float]:
    """Guess how many rows an answer has, and how many the largest join in it has."""
    if isinstance(body, SetOperation):
        (a, most_a), (b, most_b) = _weight(case, body.left), _weight(case, body.right)
        return a + b, max(a + b, most_a, most_b)
    rows, most, raw = 1.0, 0.0, 1.0
    keys = max(len(set(t.column("k").to_pylist())) for t in case.streams.values()) / 1.5 or 1.0
    for item, conditions in zip(body.items, body.on, strict=True):
        if isinstance(item, Stream):
            table = case.streams[item.name]
            held: float = max((len(in_window(table, item.window, hop)) for hop in case.hops), default=0)
        else:
            held, most_below = _weight(case, item.body)
            most = max(most, most_below)
        raw *= max(1.0, held)
        rows *= max(1.0, held)
        for condition in conditions:
            rows /= keys if " = " in condition else 1.2
    return rows, max(most, rows, raw / 25)


class _Draw:
    """The draw of one case: streams first, then windows that go with their times, then a query."""

    def __init__(self, rnd: random.Random, most: int) -> None:
        self.rnd = rnd
        self.names = ["a", "b", "c", "d"][: rnd.choice([2, 3, 3, 4])]
        self.tick = rnd.choice([1, 1000, 250_000, 1_000_000])
        self.hop = rnd.choice([1, 2, 3, 4, 4, 5, 8, 10])
        ratios = [
            rnd.choice([0.1, 0.1, 0.2, 0.25, 0.25, 0.3, 0.5, 0.5, 0.75, 1.0, 1.0, 1.5])
            for _ in range(rnd.choice([1, 2, 3]))
        ]
        self.widths = [max(1, round(self.hop / r)) for r in ratios]
        self.counted = rnd.choice([0.0, 0.0, 0.2, 0.6])
        self.streams = self.draw_streams(most)
        self.unique_aliases = rnd.random() < 0.4
        self.aliases = 0

    def case(self, kind: str) -> HopCase:
        rnd = self.rnd
        body = getattr(self, f"draw_{kind}")()
        times = [t for table in self.streams.values() for t in times_of(table)]
        span = max(times, default=0) - min(times, default=0) + 1
        hop = self.hop * self.tick
        batch = rnd.choice([span + 1, 1_000_000_000_000, max(1, span // 2), hop, hop * 5 // 2, hop // 3, self.tick])
        batch = max(batch, span // 40, 1)
        emit = rnd.choice(["complete", "delta"])
        return HopCase(kind, self.streams, body, hop, emit, batch, rnd.choice([1, 1, 2, 3]), rnd.random() < 0.5)

    # Rows

    def draw_streams(self, most: int) -> dict[str, pa.Table]:
        rnd = self.rnd
        span = self.hop * min(rnd.choice([3, 8, 20, 20, 35]), max(3, most // 2))
        gaps = [
            (rnd.randrange(span), max(self.widths) + self.hop * rnd.randint(1, 5))
            for _ in range(rnd.choice([0, 0, 1, 1, 2]))
        ]
        base = rnd.choice([0, 0, 0, 3, 1_000_003, 1_700_000_000_000_000, -7]) * (1 if rnd.random() < 0.5 else self.tick)
        base = base if abs(base) < 2**51 else 1_700_000_000_000_000
        self.time_type = rnd.choice([pa.int64(), pa.int64(), pa.timestamp("us")])
        self.int_type = rnd.choice([pa.int64(), pa.int64(), pa.int32()])
        self.nulls = rnd.choice([0.0, 0.08, 0.08, 0.25])
        self.keys = rnd.choice([1, 2, 3, 3, 5])
        self.values = rnd.choice([(0, 2), (0, 5), (-3, 9)])
        self.reals = [n / 4 for n in range(-3, 6)]
        if rnd.random() < 0.3:
            self.reals = [0.0, -0.0, math.nan, 0.25, 1.5]
        self.jitter = rnd.random() < 0.2
        return {name: self.draw_stream(most, span, gaps, base) for name in self.names}

    def draw_stream(self, most: int, span: int, gaps: list[tuple[int, int]], base: int) -> pa.Table:
        rnd = self.rnd
        count = rnd.choices([0, rnd.randint(1, 5), rnd.randint(most // 3, most), most], [1, 2, 15, 15])[0]
        first, last = rnd.choice([(0, span), (0, span), (0, span), (0, span // 2 + 1), (span // 3, span)])
        times = [rnd.randrange(first, max(last, first + 1)) for _ in range(count)]
        if rnd.random() < 0.3:  # bursts
            centres = [rnd.randrange(first, max(last, first + 1)) for _ in range(rnd.randint(1, 4))]
            times = [rnd.choice(centres) + rnd.choice([0, 0, 1, 2]) for _ in times]
        if rnd.random() < 0.15:  # at hops only
            times = [t // self.hop * self.hop for t in times]
        if rnd.random() < 0.85:  # the others talk on in the gaps
            times = [t + sum(wide for at, wide in gaps if t >= at) for t in times]
        stamps = sorted(base + t * self.tick + (rnd.randrange(self.tick) if self.jitter else 0) for t in times)
        rows = [self.draw_row() for _ in stamps]
        for i in range(1, len(rows)):
            if rnd.random() < 0.12:
                rows[i] = rows[rnd.randrange(i)]
        types = [self.int_type, self.int_type, pa.float64(), pa.string()]
        columns = {
            name: pa.array([row[i] for row in rows], t) for i, (name, t) in enumerate(zip(COLUMNS, types, strict=True))
        }
        return pa.table({"ts": pa.array(stamps, pa.int64()).cast(self.time_type), **columns})

    def draw_row(self) -> Row:
        rnd = self.rnd
        values = (
            rnd.randrange(self.keys),
            rnd.randint(*self.values),
            rnd.choice(self.reals),
            rnd.choice(["a", "b", "ab", "B", ""][: self.keys + 1]),
        )
        return tuple(None if rnd.random() < self.nulls else v for v in values)

    # Streams in FROM

    def draw_window(self) -> Window:
        rnd = self.rnd
        if rnd.random() >= self.counted:
            return Window(width_us=rnd.choice(self.widths) * self.tick)
        by: tuple[str, ...] = rnd.choice([(), ("k",), ("k",), ("s",), ("k", "s")])
        return Window(rows=rnd.choice([1, 2, 3, 7]) if by else rnd.choice([1, 2, 5, 15]), by=by)

    def draw_alias(self, name: str, taken: list[str]) -> str:
        """Draw an alias: distinct in the whole query, or only among those it can be confused with."""
        if self.unique_aliases:
            self.aliases += 1
            return f"{name}{self.aliases}"
        free = [n for n in (name, name, name, "p", "q", "r", "t", "u", "w") if n not in taken]
        return self.rnd.choice(free)

    def draw_item(self, taken: list[str], name: str = "", window: Window | None = None) -> Stream:
        name = name or self.rnd.choice(self.names)
        alias = self.draw_alias(name, taken)
        taken.append(alias)
        return Stream(name, window or self.draw_window(), alias, self.rnd.random() < 0.15)

    def draw_derived(self, taken: list[str], depth: int) -> Derived:
        """Draw a subquery with a key and a number."""
        alias = self.draw_alias("d_", taken)
        taken.append(alias)
        shape = self.rnd.choice([(INT, INT), (INT, INT), (INT, REAL), (INT, INT, TEXT)])
        return Derived(self.draw_body(shape, depth - 1), alias)

    # Expressions

    def column(self, items: list[Item], kind: str) -> str:
        """Draw a column of a kind; there is always one of integers."""
        found = [f"{i.alias}.{c}" for i in items for c, k in i.columns.items() if k == kind]
        return self.rnd.choice(found) if found else ""

    def value(self, items: list[Item], kind: str) -> tuple[str, str]:
        """Draw an expression; where there are no columns of a kind, and sometimes for reals, it is another kind."""
        rnd = self.rnd
        column, number = self.column(items, kind), self.column(items, INT)
        if rnd.random() < 0.72 and column:
            return column, kind
        if kind == TEXT:
            if not column:
                return f"CASE WHEN {number} > 1 THEN 'a' ELSE 'b' END", TEXT
            texts = [f"upper({column})", f"coalesce({column}, 'a')", f"{column} || '!'", "'a'"]
            return rnd.choice(texts), TEXT
        if kind == REAL:
            if not column or rnd.random() < 0.3:
                return (number, INT) if rnd.random() < 0.5 else (f"CAST({number} AS DOUBLE)", REAL)
            return rnd.choice(
                [f"{column} * 2", f"coalesce({column}, 0.25)", f"{column} + {number}", f"abs({column})"]
            ), REAL
        other = self.column(items, INT)
        forms = [
            f"{number} + 1",
            f"coalesce({number}, 0)",
            f"{number} + {other}",
            f"{number} % 3",
            f"abs({number})",
            f"CASE WHEN {number} > 1 THEN {other} ELSE 0 END",
            "1",
        ]
        return rnd.choice(forms), INT

    def condition(self, items: list[Item]) -> str:
        """Draw a filter."""
        rnd = self.rnd
        n, m = self.column(items, INT), self.column(items, INT)
        forms = [
            f"{n} > {rnd.randint(0, 2)}",
            f"{n} IS NOT NULL",
            f"{n} IN (0, 2, 3)",
            f"NOT ({n} = 1)",
            f"({n} = 1 OR {m} > 2)",
            f"{n} + {m} < {rnd.randint(1, 6)}",
        ]
        x, s = self.column(items, REAL), self.column(items, TEXT)
        forms += [f"{x} > 0.25", f"{x} <> 0", f"{x} BETWEEN -0.5 AND 1", f"{x} IS NULL"] if x else []
        forms += [f"{s} <> 'b'", f"{s} LIKE 'a%'", f"({s} = 'a' OR {n} < 3)"] if s else []
        forms += ["1 > 2"] if rnd.random() < 0.1 else []
        return rnd.choice(forms)

    def conditions(self, items: list[Item], chance: float = 0.25) -> tuple[str, ...]:
        return tuple(self.condition(items) for _ in range(2) if self.rnd.random() < chance)

    def match(self, left: list[Item], right: Item, style: str) -> list[str]:
        """Draw what joins an item with those before it: by `equi`, `theta`, `cross` or `mixed`."""
        rnd, other = self.rnd, self.rnd.choice(left)
        style = rnd.choice(["equi", "equi", "equi", "theta"]) if style == "mixed" else style
        if style == "cross":
            return []
        n, m = self.column([other], INT), self.column([right], INT)
        if style == "theta":
            forms = [f"{n} < {m}", f"{n} <> {m}", f"{n} >= {m} + 1", f"{n} BETWEEN {m} - 1 AND {m} + 1"]
            if isinstance(other, Stream) and isinstance(right, Stream):
                forms += [f"{other.alias}.ts <= {right.alias}.ts", f"{other.alias}.x < {right.alias}.x"]
            return [rnd.choice(forms)]
        shared = [c for c, k in other.columns.items() if right.columns.get(c) == k]
        keys = [c for c in shared if c == "k"] * 4 + shared
        found = [f"{other.alias}.{c} = {right.alias}.{c}" for c in rnd.sample(keys, min(len(keys), 1))]
        if not found or rnd.random() < 0.15:
            found = [rnd.choice([f"{n} = {m}", f"{n} + 1 = {m}", f"{m} = {n}"])]
        if rnd.random() < 0.25:
            found.append(rnd.choice([f"({n} + {m}) % 2 = 0", f"{n} <= {m}", f"({n} <> {m} OR {n} = 1)", f"{n} = {m}"]))
        if len(left) > 1 and rnd.random() < 0.2:  # a third item has its say
            third = self.column(left, INT)
            found.append(rnd.choice([f"{third} = {m}", f"{third} + {n} >= {m}"]))
        return found

    # Queries

    def items(self, least: int, most: int, depth: int, taken: list[str]) -> tuple[list[Item], list[tuple[str, ...]]]:
        """Draw what FROM lists and the conditions each item brings."""
        rnd = self.rnd
        count = rnd.randint(least, most)
        style = rnd.choice(["equi", "equi", "equi", "mixed", "mixed", "theta", "cross"])
        items: list[Item] = []
        on: list[tuple[str, ...]] = []
        for _ in range(count):
            item = self.draw_derived(taken, depth) if depth > 0 and rnd.random() < 0.15 else self.draw_item(taken)
            on.append(tuple(self.match(items, item, style)) if items else ())
            items.append(item)
        return items, on

    def outputs(self, values: list[tuple[str, str]]) -> tuple[Output, ...]:
        """Give names to a select list: that of the column if it is free."""
        found: list[Output] = []
        for text, kind in values:
            taken = [o.name for o in found]
            own = re.fullmatch(COLUMN, text)
            if own and own[1] not in taken and self.rnd.random() < 0.6:
                found.append(Output(text, kind, own[1]))
            else:
                found.append(Output(text, kind, next(n for i in count() if (n := f"o{i}") not in taken)))
        return tuple(found)

    def shape(self) -> tuple[str, ...]:
        return self.rnd.choice(
            [(INT, INT), (INT, INT), (INT,), (INT, REAL), (INT, TEXT), (TEXT, INT), (INT, INT, REAL, TEXT)]
        )

    def plain_select(self, shape: tuple[str, ...], least: int = 1, most: int = 1, depth: int = 0) -> Select:
        taken: list[str] = []
        items, on = self.items(least, most, depth, taken)
        outputs = self.outputs([self.value(items, kind) for kind in shape])
        explicit = self.rnd.random() < 0.3
        return Select(outputs, tuple(items), tuple(on), self.conditions(items), explicit=explicit)

    def with_absent(self, select: Select, several: bool = True) -> Select:
        """Add one NOT EXISTS or more."""
        rnd = self.rnd
        found: list[Absent] = []
        for _ in range(rnd.choice([1, 1, 2, 3]) if several else 1):
            taken = [i.alias for i in select.items] + [a.item.alias for a in found]
            narrow = Window(width_us=min(self.widths) * self.tick)
            inner = self.draw_item(taken, window=narrow if rnd.random() < 0.5 else None)
            style = rnd.choice(["equi", "equi", "equi", "theta"]) if rnd.random() < 0.95 else "cross"
            conditions = [*self.match(list(select.items), inner, style), *self.conditions([inner], 0.4)]
            if rnd.random() < 0.1:
                conditions.append(self.condition(list(select.items)))
            found.append(Absent(inner, tuple(conditions)))
        return replace(select, absent=tuple(found))

    def aggregate(self, items: list[Item], kind: str) -> tuple[str, str]:
        """Draw an aggregate that gives a kind."""
        rnd = self.rnd
        n, x, s = (self.column(items, k) for k in (INT, REAL, TEXT))
        if kind == TEXT and s:
            return f"{rnd.choice(['MIN', 'MAX'])}({s})", TEXT
        if kind == REAL:
            argument = x if x and rnd.random() < 0.6 else ""
            function = rnd.choice(["AVG", "MEDIAN", "SUM", "MIN", "MAX"] if argument else ["AVG", "MEDIAN"])
            return f"{function}({argument or n})", REAL
        forms = [
            "COUNT(*)",
            "COUNT(*)",
            f"COUNT({n})",
            f"COUNT(DISTINCT {n})",
            f"SUM({n})",
            f"SUM({n})",
            f"MIN({n})",
            f"MAX({n})",
        ]
        forms += [f"COUNT(DISTINCT {x})"] if x else []
        forms += [f"COUNT(DISTINCT {s})", f"COUNT({s})"] if s else []
        forms += [f"SUM({n} + 1)", f"SUM({n}) + COUNT(*)", f"SUM(DISTINCT {n})", f"MAX({n}) - MIN({n})"]
        text = rnd.choice(forms)
        return (f"CASE WHEN {text} > 1 THEN 'many' ELSE 'few' END", TEXT) if kind == TEXT else (text, INT)

    def grouped(self, shape: tuple[str, ...], depth: int, keyed: bool = True) -> Select:
        """Draw aggregates of a stream, of a join, or of a subquery."""
        rnd = self.rnd
        taken: list[str] = []
        items: list[Item]
        on: list[tuple[str, ...]]
        if depth > 0 and rnd.random() < 0.3:
            items, on = [self.draw_derived(taken, depth)], [()]
        else:
            items, on = self.items(1, rnd.choice([1, 1, 2, 3]), depth, taken)
        keys: list[tuple[str, str]] = []
        if keyed:
            for kind in rnd.choice([(INT,), (INT,), (INT, INT), (TEXT,), (INT, TEXT), (REAL,)]):
                text, given = self.value(items, kind)
                if text[0].isalpha() and text not in [k for k, _ in keys]:  # not a constant
                    keys.append((text, given))
            keys = keys or [(self.column(items, INT), INT)]
        values = []
        for kind in shape:
            fitting = [k for k in keys if k[1] == kind and k not in values]
            values.append(rnd.choice(fitting) if fitting and rnd.random() < 0.65 else self.aggregate(items, kind))
        n = self.column(items, INT)
        having = [
            "COUNT(*) > 1",
            f"SUM({n}) > 2",
            f"MIN({n}) IS NOT NULL",
            f"COUNT(DISTINCT {n}) < 3",
            f"AVG({n}) >= 1",
        ]
        having += [f"{keys[0][0]} IS NOT NULL"] if keys else []
        chosen = rnd.choice(having) if rnd.random() < (0.35 if keyed else 0.08) else ""
        group = tuple(text for text, _ in keys)
        where = self.conditions(items, 0.3)
        return Select(self.outputs(values), tuple(items), tuple(on), where, keys=group, having=chosen)

    def set_operation(self, shape: tuple[str, ...], depth: int) -> SetOperation:
        rnd = self.rnd
        op = rnd.choice(["EXCEPT", "EXCEPT", "EXCEPT ALL", "EXCEPT ALL", "UNION", "UNION ALL"])
        left, right = (self.draw_body(shape, depth - 1) for _ in range(2))
        if op.startswith("EXCEPT") and not self.unique_aliases and rnd.random() < 0.6:  # sides that have rows in common
            right = self.variant(left)
        return SetOperation(op, left, right, rnd.random() < 0.3)

    def variant(self, body: Body) -> Body:
        """Return a query like another: of other windows, under another filter."""
        if isinstance(body, SetOperation):
            return replace(body, left=self.variant(body.left))
        first, *others = body.items
        if isinstance(first, Stream):
            first = replace(first, window=self.draw_window())
        where = body.where if self.rnd.random() < 0.5 else self.conditions(list(body.items))
        return replace(body, items=(first, *others), where=where)

    def draw_body(self, shape: tuple[str, ...], depth: int) -> Body:
        """Draw any query with columns of the given kinds."""
        rnd = self.rnd
        kind = rnd.random()
        if kind < 0.35:
            return self.plain_select(shape)
        if kind < 0.42:
            return replace(self.plain_select(shape), distinct=True)
        if kind < 0.62:
            return self.plain_select(shape, 2, 2, depth)
        if kind < 0.7:
            return self.with_absent(self.plain_select(shape), several=False)
        if kind < 0.8 or depth <= 0:
            return self.grouped(shape, depth)
        return self.set_operation(shape, depth)

    def draw_select(self) -> Body:
        return self.plain_select(self.shape())

    def draw_distinct(self) -> Body:
        if self.rnd.random() < 0.1:
            return replace(self.grouped(self.shape(), 1), distinct=True)
        return replace(self.plain_select(self.shape(), 1, self.rnd.choice([1, 1, 2]), 1), distinct=True)

    def draw_join(self) -> Body:
        return self.plain_select(self.shape(), 2, 4, 1)

    def draw_absent(self) -> Body:
        select = self.with_absent(self.plain_select(self.shape(), 1, 3, 1))
        return replace(select, distinct=self.rnd.random() < 0.1)

    def draw_set(self) -> Body:
        return self.set_operation(self.shape(), self.rnd.choice([1, 2, 2, 3]))

    def draw_subquery(self) -> Body:
        """Draw a subquery, mostly a set operation, joined with streams."""
        rnd = self.rnd
        taken: list[str] = []
        derived = self.draw_derived(taken, 1)
        if rnd.random() < 0.7:
            shape = rnd.choice([(INT, INT), (INT, TEXT), (INT, REAL)])
            derived = Derived(self.set_operation(shape, rnd.choice([1, 1, 2])), derived.alias)
        items: list[Item] = [derived]
        on: list[tuple[str, ...]] = [()]
        for _ in range(rnd.choice([0, 1, 1, 1, 2])):
            item = self.draw_item(taken)
            on.append(tuple(self.match(items, item, "mixed")))
            items.append(item)
        if len(items) == 2 and rnd.random() < 0.3:
            items.reverse()
        select = Select(self.outputs([self.value(items, k) for k in self.shape()]), tuple(items), tuple(on))
        select = replace(select, where=self.conditions(items, 0.25), explicit=rnd.random() < 0.2)
        return self.with_absent(select, several=False) if rnd.random() < 0.15 else select

    def draw_group(self) -> Body:
        return self.grouped(aggregated_shape(self.rnd), 2)

    def draw_aggregate(self) -> Body:
        return self.grouped(aggregated_shape(self.rnd), 2, keyed=False)

    def draw_pushable(self) -> Body:
        """Draw a difference of two joins with a part in common: under the difference, if everything fits.

        Mostly it fits: the same windows, the same conditions, all columns selected; sometimes one of these does not.
        """
        rnd = self.rnd
        one, two, common = (self.names * 2)[:3] if rnd.random() < 0.7 else [rnd.choice(self.names) for _ in range(3)]
        shared = self.draw_window()
        own = self.draw_window()
        outer = rnd.choice(["k", "k", "k", "s", "v"])
        compare = rnd.choice(["=", "=", "=", "=", "<"])
        filters = [
            rnd.choice(["", "", "{c}.v > 0", "{c}.s <> 'b'"]),
            rnd.choice(["", "", "{o}.v < 4", "{o}.k IS NOT NULL"]),
        ]
        lists = ["{o}.k, {o}.v, {c}.v", "{o}.k, {o}.v, {c}.k, {c}.v", "{c}.v, {o}.k, {o}.v", "{o}.k, {c}.s, {o}.v"]
        columns = rnd.choice([*lists, "{o}.v, {c}.v", "{o}.k", "{o}.k + 1, {c}.v"]).split(", ")
        sides, common_first = [], rnd.random() < 0.3
        third = self.draw_window() if rnd.random() < 0.2 else None
        for number, name in enumerate([one, two]):
            taken: list[str] = []
            window = shared if number == 0 or rnd.random() < 0.85 else self.draw_window()
            o = self.draw_item(taken, name, own if rnd.random() < 0.7 else None)
            c = self.draw_item(taken, common, window)
            names = {"o": o.alias, "c": c.alias}
            values = [(text.format(**names), COLUMNS[text.split(".")[1][0]]) for text in columns]
            items: list[Item] = [c, o] if common_first else [o, c]
            on: list[tuple[str, ...]] = [(), (f"{o.alias}.{outer} {compare} {c.alias}.{outer}",)]
            if third:
                more = self.draw_item(taken, self.names[-1], third)
                items.append(more)
                on.append((f"{c.alias}.k = {more.alias}.k",))
            kept = [f for f in filters if f and (number == 0 or rnd.random() < 0.85)]
            where = tuple(f.format(**names) for f in kept)
            sides.append(Select(self.outputs(values), tuple(items), tuple(on), where))
        difference = SetOperation(rnd.choice(["EXCEPT", "EXCEPT ALL"]), sides[0], sides[1])
        if rnd.random() < 0.8:
            return difference
        derived = Derived(difference, self.draw_alias("d_", []))
        n = self.column([derived], INT)
        outputs = self.outputs([(n, INT), ("COUNT(*)", INT)])
        return Select(outputs, (derived,), ((),), keys=(n,))


def aggregated_shape(rnd: random.Random) -> tuple[str, ...]:
    """Draw the kinds of columns of a query with aggregates."""
    return rnd.choice([(INT, INT), (INT, INT, REAL), (INT, REAL), (INT, INT, INT), (TEXT, INT), (INT, REAL, TEXT)])
