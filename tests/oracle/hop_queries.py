"""Hopping queries as small trees, and cases: such a query, its streams, and how the engine runs it.

A query has two ways to write a stream: with its window after it, or, for DuckDB, as the rows that are in that window
at T. All else is text that both read alike. Nothing here knows plans, modes or states.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

INT, REAL, TEXT = "int", "real", "text"
COLUMNS = {"k": INT, "v": INT, "x": REAL, "s": TEXT}
COLUMN = r"[a-z_]\w*\.(\w+)"

Row = tuple[Any, ...]


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
    """A stream in FROM; `behind` writes the window after the alias."""

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
    """One SELECT. `on` has the conditions that each item brings; `explicit` writes them after JOIN."""

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
        """Return when the query answers: the multiples after the first row it reads, up to the last one."""
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
