"""Live scripts: rows as micro-batches bring them, and changes and migrations as control rows that one of them reads.

    seed, methods ──▶ rows, queries, where the rows are cut, which micro-batch reads what ──▶ positions ──▶ a case

A change takes effect after every row that has been read when its control row is. So the positions follow from the cuts,
and what must come out is that of the case with those positions: by definition, in process, and on Spark.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

import midstream as ms
from midstream.plan.plan import Plan
from oracle.change_run import Change
from oracle.changes import Row
from oracle.test_changes import STREAMS, Case, Migration, draw_meeting, draw_migrating, tick_us

IDLE = 3
"""Micro-batches without rows at the end: buckets hear of what they have brought about."""


@dataclass(frozen=True)
class LiveScript:
    """A live run. Its case has the changes at the positions they take."""

    case: Case
    cuts: tuple[int, ...]
    """Where micro-batches end: each has the rows before that time that no earlier one has."""
    read: tuple[int, ...]
    """The micro-batch that reads each change."""
    migrations: tuple[Migration, ...] = ()
    """Migrations: the micro-batch that reads each, its plan and strategy."""

    @property
    def streams(self) -> list[str]:
        """Return the streams that one of the queries reads."""
        used = self.case.first.streams.union(*(c.query.streams for c in self.case.changes))
        return [name for name in STREAMS if name in used]

    def plans(self) -> list[Plan]:
        """Return the plans of all versions."""
        engine = ms.Engine()
        for name in self.streams:
            engine.stream(name, self.table(name), time="ts")
        return [engine.query(q.sql).plan for q in (self.case.first, *(c.query for c in self.case.changes))]

    def table(self, name: str, batch: int | None = None) -> pa.Table:
        """Return a stream, or what a micro-batch brings of it."""
        first = self.cuts[batch - 1] if batch else -(2**62)
        rows = [r for r in self.case.rows[name] if batch is None or first <= r.time < self.cuts[batch]]
        columns = {c: pa.array([r.values[c] for r in rows], pa.int64()) for c in ("k", "v")}
        return pa.table({"ts": pa.array([r.time for r in rows], pa.int64()), **columns})

    def __str__(self) -> str:
        return f"{self.case}\n  cuts {self.cuts}, changes read in {self.read}, migrations {self.migrations}"


def draw_live(rnd: random.Random, methods: Sequence[str], batches: int = 6) -> LiveScript:
    """Draw a live run with changes by some methods, mostly close after one another."""
    return _cut(rnd, draw_meeting(rnd, methods), batches)


def draw_live_migrating(rnd: random.Random, batches: int = 6) -> LiveScript:
    """Draw a live run with changes between joins, and migrations around them."""
    case, migrations = draw_migrating(rnd)
    script, asked = _cut(rnd, case, batches), list[Migration]()
    for _, plan, strategy in migrations:
        batch = rnd.randrange(batches)
        # What it holds back before any change leaves where the change begins, in its own order.
        early = strategy == "parallel-track" and batch < script.read[0] + 2
        asked.append((batch, plan, "hybrid" if early else strategy))
    return replace(script, migrations=tuple(asked))


def _cut(rnd: random.Random, case: Case, batches: int) -> LiveScript:
    """Cut the rows of a case; its changes are read where they were drawn, or a little later."""
    tick = tick_us(case.rows)
    times = sorted({r.time for rows in case.rows.values() for r in rows})
    cuts = sorted(rnd.sample(times[1:], batches - 1)) if len(times) > batches else times[1:]
    # Rows of all streams at the end, so that all others take part before the run ends.
    last = times[-1] + rnd.choice([1, tick, 20 * tick])
    ends = [last + k * tick for k in range(2)]
    rows = {
        name: [*mine, *(Row(at, number, len(mine) + k, {"k": 0, "v": 1}) for k, at in enumerate(ends))]
        for number, (name, mine) in enumerate(case.rows.items())
    }
    script = LiveScript(replace(case, rows=rows), (*cuts, last, *(at + 1 for at in ends)), ())
    read, changes = [], []
    for change in case.changes:
        batch = next(k for k, end in enumerate(script.cuts) if change.position < end)
        batch = max([min(batch, len(cuts)), *read[-1:]])
        seen = [r.time for name in script.streams for r in rows[name] if r.time < script.cuts[batch]]
        while not seen:  # nothing has been read: a later micro-batch reads it
            batch += 1
            seen = [r.time for name in script.streams for r in rows[name] if r.time < script.cuts[batch]]
        read.append(batch)
        changes.append(Change(max(seen) + 1, change.query, change.method))
    return replace(script, case=replace(script.case, changes=tuple(changes)), read=tuple(read))
