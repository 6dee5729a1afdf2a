"""Changes from, to and between hopping queries: their answers from scratch, under the definitions of `changes`.

    rows of a version ─▶ DuckDB, hop by hop ─▶ answers ─▶ results that depend on all rows in the windows
                                                            └─▶ FStart, IStop, DStop, counts as for any other query

Nothing here knows how the engine does it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from oracle.changes import (
    BEGINNING,
    NEVER,
    Given,
    Measures,
    Oracle,
    Query,
    Result,
    Row,
    Value,
    Version,
    stream_disorder,
)
from oracle.hop_queries import COLUMNS, INT, REAL, TEXT, Body, HopCase, duration, names_of, query_text, streams_of
from oracle.hop_recompute import in_window, last_times, snapshots

ARROW = {INT: pa.int64(), REAL: pa.float64(), TEXT: pa.string()}
Rows = dict[str, list[Row]]


@dataclass(frozen=True, eq=False)
class HopResult(Result):
    """A row of an answer, or of how an answer differs from the one before."""

    held: tuple[tuple[int, int], ...] = ()
    """Stream and offset of every row in the windows, as often as they hold it."""
    sign: int | None = None


@dataclass(frozen=True)
class HopsOf(HopCase):
    """A hopping query over some rows, with the hops at which it answers."""

    at: tuple[int, ...] = ()

    @property
    def hops(self) -> list[int]:
        return list(self.at)


@dataclass(frozen=True)
class HopQuery:
    """A hopping query as a function from rows to results."""

    body: Body
    hop_us: int
    emit: str

    @property
    def sql(self) -> str:
        return f"{query_text(self.body, lambda s: s.sql)} HOP BY {duration(self.hop_us)} EMIT {self.emit.upper()}"

    @property
    def streams(self) -> frozenset[str]:
        return frozenset(s.name for s in streams_of(self.body))

    def results(self, rows: Rows, latest: int) -> list[Result]:
        """Return the answers of a version that began with the first row."""
        return self.results_from(BEGINNING, rows, latest)

    def results_from(self, start: int, rows: Rows, latest: int) -> list[Result]:
        """Return the answers at all hops after a start, over the rows from there on; up to the latest time."""
        if start == BEGINNING:
            start = min((r.time for name in self.streams for r in rows[name]), default=NEVER)
        hops = tuple(range((start // self.hop_us + 1) * self.hop_us, latest + 1, self.hop_us))
        tables = {name: _table(rows[name]) for name in self.streams}
        case = HopsOf("", tables, self.body, self.hop_us, self.emit, 1, 1, at=hops)
        out: list[Result] = []
        before = Counter[tuple[Value, ...]]()
        for hop, answer in snapshots(case):
            held = [rows[s.name][i] for s in streams_of(self.body) for i in in_window(tables[s.name], s.window, hop)]
            signed = [(None, answer)] if self.emit == "complete" else [(-1, before - answer), (1, answer - before)]
            places = tuple(sorted((r.stream, r.offset) for r in held))
            for sign, given in signed:
                for values in sorted(given.elements(), key=_value_order):
                    named = dict(zip(names_of(self.body), values, strict=True))
                    out.append(HopResult(named, frozenset(held), (hop, -1, -1), hop, places, sign))
            before = answer
        return out

    def drained(self, rows: Rows, position: int, latest: int) -> int:
        """Return the last hop whose windows hold an old row; NEVER if no later hop has shown that it is the last."""
        last = position
        for stream in streams_of(self.body):
            ends = last_times(_table(rows[stream.name]), stream.window)
            olds = [end for end, row in zip(ends, rows[stream.name], strict=True) if row.time < position]
            # The last multiple up to the end of the last old row.
            last = max(last, *(end // self.hop_us * self.hop_us for end in olds)) if olds else last
        return last if (last // self.hop_us + 1) * self.hop_us <= latest else NEVER


def _value_order(values: tuple[Value, ...]) -> list[tuple[bool, Value]]:
    return [(v is not None, 0 if v is None else v) for v in values]


def _table(rows: Sequence[Row]) -> pa.Table:
    columns = {name: pa.array([r.values[name] for r in rows], ARROW[kind]) for name, kind in COLUMNS.items()}
    return pa.table({"ts": pa.array([r.time for r in rows], pa.int64()), **columns})


class HopOracle(Oracle):
    """A run some of whose versions hop."""

    def fresh_start(self, query: Query, position: int) -> list[Result]:
        """FStart: one that hops answers at every hop after the position, over the rows from there on."""
        rows = self._from(position)
        if isinstance(query, HopQuery):
            return query.results_from(position, rows, self.latest)
        return query.results(rows, self.latest)

    def _drained(self, version: Version) -> int:
        """Return where nothing is left of a version; one that had not begun before its drain has nothing to drain."""
        if isinstance(version.query, HopQuery) and NEVER > version.drains_from < version.stopped_at:
            begun = version.start
            if begun == BEGINNING:
                begun = min((r.time for name in version.query.streams for r in self.rows[name]), default=NEVER)
            if begun >= version.drains_from:
                return version.drains_from
        return super()._drained(version)


def output_row(given: Given, hops: bool, signs: bool) -> tuple[Value, ...]:
    """Return the output row; `hops` and `signs` when some version has such a column."""
    result = given.result
    mine = isinstance(result, HopResult)
    row = [*given.row, *([result.trigger[0] if mine else None] if hops else [])]
    return *row, *([result.sign if isinstance(result, HopResult) else None] if signs else [])


def _printed(result: Result) -> tuple[object, ...]:
    """Return what is equal in duplicates: the row, whether it comes or goes, and the rows it depends on."""
    if isinstance(result, HopResult):
        return tuple(result.values.values()), result.sign or 1, result.held
    return tuple(result.values.values()), 1, tuple(sorted((r.stream, r.offset) for r in result.depends))


@dataclass(frozen=True)
class Counts:
    """What the record of a change is to say."""

    measures: Measures
    old_results: int
    new_results: int
    """Of the whole run."""
    first_result_us: int | None
    ended_us: int | None


def count(oracle: HopOracle, given: Sequence[Given]) -> Counts:
    """Count what a run with one change is to report."""
    (change,) = oracle.changes
    old, new = oracle.versions
    at = change.position
    got = Counter((g.version, g.result.identity) for g in given)
    expected = Counter((1, y.identity) for y in old.results if y.has_row_before(at))
    for y in oracle.fresh_start(change.query, at):
        # A new version that starts later is at fault only for what lies in between.
        if change.method != "delayed-drain" or y.has_row_before(new.start):
            expected[2, y.identity] += 1
    olds = [g.result for g in given if g.version == 1 and not _before(g.result, at)]
    news = [g.result for g in given if g.version == 2]
    versions = [g.version for g in given]
    first = versions.index(2) if news else len(given)
    prints = Counter(_printed(y) for y in olds if not y.has_row_before(at))
    # What had to wait for others left with the last of them.
    left = [g.result.trigger[0] for g in given[: first + 1] if not (g.version == 1 and _before(g.result, at))]
    return Counts(
        Measures(
            loss=(expected - got).total(),
            extra=sum(not y.has_row_before(at) for y in olds),
            query_disorder=versions[first:].count(1),
            stream_disorder=stream_disorder([g.result for g in given]),
            duplicates=sum(prints[_printed(y)] for y in news),
        ),
        len(olds),
        len(news),
        max(left) if news else None,
        None if oracle.ends[0] == NEVER else oracle.ends[0],
    )


def _before(result: Result, position: int) -> bool:
    return result.trigger[0] < position or result.trigger == (position, -1, -1)
