"""Changes from, to and between hopping queries: their answers from scratch, under the definitions of `changes`.

    rows of a version ─▶ DuckDB, hop by hop ─▶ answers ─▶ results that depend on all rows in the windows
                                                            └─▶ FStart, IStop, DStop, counts as for any other query

Nothing here knows how the engine does it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import pyarrow as pa

from oracle.change_run import ChangeRun, Given, Oracle, Version
from oracle.changes import BEGINNING, NEVER, Query, Result, Row, Value
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

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what tells the rows of answers apart: the rows they depend on, their values, come or gone."""
        return *super().identity, tuple(self.values.values()), self.sign


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
    others: tuple[tuple[int, int], ...] = ()
    """Positions from which on another hop is asked for: it begins after the first answer there or later."""

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
        hops = tuple(takewhile(lambda hop: hop <= latest, self.hops_from(self.begun(start, rows))))
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

    def begun(self, start: int, rows: Rows) -> int:
        """Return where the hops begin: at the first row, or where the version is started."""
        if start != BEGINNING:
            return start
        return min((r.time for name in self.streams for r in rows[name]), default=NEVER)

    def hops_from(self, begun: int) -> Iterator[int]:
        """Yield the hops after a position, without end."""
        hop, others = self.hop_us, sorted(self.others, key=lambda other: other[0])
        while True:
            while others and others[0][0] <= begun:
                hop = others.pop(0)[1]
            begun = (begun // hop + 1) * hop
            yield begun

    def after(self, begun: int, position: int) -> "HopQuery":
        """Return the query with the hop it has come to at a position, and those that are asked for by then."""
        hop, others = self.hop_us, sorted(self.others, key=lambda other: other[0])
        for answered in (begun, *takewhile(lambda t: t <= position, self.hops_from(begun))):
            while others and others[0][0] <= answered:
                hop = others.pop(0)[1]
        return replace(self, hop_us=hop, others=tuple(others))

    def drained(self, rows: Rows, position: int, latest: int) -> int:
        """Return the end of a drain of a version that began with the first row."""
        return self.drained_from(BEGINNING, rows, position, latest)

    def drained_from(self, start: int, rows: Rows, position: int, latest: int) -> int:
        """Return the last hop whose windows hold an old row; NEVER if no later hop has shown that it is the last."""
        hops = [position, *takewhile(lambda hop: hop <= latest, self.hops_from(self.begun(start, rows)))]
        last = position
        for stream in streams_of(self.body):
            ends = last_times(_table(rows[stream.name]), stream.window)
            olds = [end for end, row in zip(ends, rows[stream.name], strict=True) if row.time < position]
            last = max([last, *(hop for hop in hops if olds and hop <= max(olds))])
        return last if any(hop > last for hop in hops) else NEVER


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
        if self._idle(version):
            return version.drains_from
        if isinstance(version.query, HopQuery):
            rows = self._from(version.start)
            return version.query.drained_from(version.start, rows, version.drains_from, self.latest)
        return super()._drained(version)

    def _idle(self, version: Version) -> bool:
        query = version.query
        return isinstance(query, HopQuery) and query.begun(version.start, self.rows) >= version.drains_from

    def _over(self, version: Version) -> int:
        """Return where nothing is left of a version; one that is stopped before that is known drains till then."""
        over = super()._over(version)
        return over if self._shown(version, over) <= version.stopped_at else version.stopped_at

    def _known(self, version: Version) -> int:
        """Return from where on it is known that a version is over."""
        return self._shown(version, self._over(version))

    def _shown(self, version: Version, over: int) -> int:
        """Return where the end of a version shows: of a drain the next hop tells that the last was the last."""
        query = version.query
        if not isinstance(query, HopQuery) or over in (BEGINNING, NEVER, version.stopped_at) or self._idle(version):
            return over
        return next(hop for hop in query.hops_from(query.begun(version.start, self.rows)) if hop > over)

    def _hop(self, position: int, hop_us: int) -> None:
        """Let the newest version answer at other hops, if it hops at all."""
        newest = max(self._alive(position), key=lambda v: v.number, default=None)
        if newest is not None and isinstance(newest.query, HopQuery):
            newest.query = replace(newest.query, others=(*newest.query.others, (position, hop_us)))
            newest.results = self.fresh_start(newest.query, newest.start)

    def started_anew(self, version: Version, position: int, runs: bool) -> Query:
        """Return the query with the hop it has come to; of a version that was stopped before as it was asked for."""
        if not isinstance(version.query, HopQuery):
            return version.query
        if not runs:
            return [self.versions[0].query, *(c.query for c in self.changes)][version.number - 1]
        return version.query.after(version.query.begun(version.start, self.rows), position)

    def printed(self, run: ChangeRun, result: Result) -> object:
        """Return what is equal in duplicates: with hops also the row, and whether it comes or goes."""
        if not any(isinstance(v.query, HopQuery) for v in (*run.old, run.new)):
            return super().printed(run, result)
        if isinstance(result, HopResult):
            return tuple(result.values.values()), result.sign or 1, result.held
        return tuple(result.values.values()), 1, tuple(sorted((r.stream, r.offset) for r in result.depends))


def output_row(given: Given, hops: bool, signs: bool) -> tuple[Value, ...]:
    """Return the output row; `hops` and `signs` when some version has such a column."""
    result = given.result
    mine = isinstance(result, HopResult)
    row = [*given.row, *([result.trigger[0] if mine else None] if hops else [])]
    return *row, *([result.sign if isinstance(result, HopResult) else None] if signs else [])
