"""Live scripts: rows as micro-batches bring them, and changes and migrations as control rows that one of them reads.

    seed, methods ──▶ rows, queries, where the rows are cut, which micro-batch reads what ──▶ positions ──▶ a case

A change takes effect after every row that has been read when its control row is. So the positions follow from the cuts,
and what must come out is that of the case with those positions: by definition, in process, and on Spark. A stream may
lag behind the others, which then wait for it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

import midstream as ms
from midstream.plan.plan import Plan
from oracle import test_changes, test_hop_changes
from oracle.change_run import Change
from oracle.changes import Row
from oracle.hop_changes import ARROW
from oracle.hop_queries import COLUMNS
from oracle.test_changes import Migration, draw_meeting, draw_migrating, tick_us

IDLE = 3
"""Micro-batches without rows at the end: buckets learn what they have caused."""
Case = test_changes.Case | test_hop_changes.Case
LAST_VALUES = {"k": 0, "v": 1}
"""Of the rows that end a script; other columns are null."""


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
    behind: tuple[tuple[str, int], ...] = ()
    """Streams that lag: by how many micro-batches their rows come later."""
    controls: tuple[tuple[str, int, int], ...] = ()
    """Control elements: their kind, the micro-batch that reads each, and the position it takes, after its changes."""
    lateness_us: int = 0
    """How late rows may be; none is, but all have to wait that long."""
    registered: bool = False
    """Its queries are registered beforehand and changed to by number, the first one as 1."""

    @property
    def streams(self) -> list[str]:
        """Return the streams that one of the queries reads."""
        used = self.case.first.streams.union(*(c.query.streams for c in self.case.changes))
        return [name for name in self.case.rows if name in used]

    @property
    def batches(self) -> int:
        """Return how many micro-batches bring rows."""
        return len(self.cuts) + max((count for _, count in self.behind), default=0)

    def plans(self) -> list[Plan]:
        """Return the plans of all versions."""
        engine = ms.Engine()
        for name in self.streams:
            engine.stream(name, self.table(name), time="ts")
        return [engine.query(q.sql).plan for q in (self.case.first, *(c.query for c in self.case.changes))]

    def table(self, name: str, batch: int | None = None) -> pa.Table:
        """Return a stream, or what a micro-batch brings of it."""
        every = self.case.rows[name]
        rows = every if batch is None else self.rows(name, batch)
        columns = {c: pa.array([r.values[c] for r in rows], ARROW[COLUMNS[c]]) for c in every[0].values}
        return pa.table({"ts": pa.array([r.time for r in rows], pa.int64()), **columns})

    def rows(self, name: str, batch: int) -> list[Row]:
        """Return the rows that a micro-batch brings of a stream."""
        place = batch - dict(self.behind).get(name, 0)
        if not 0 <= place < len(self.cuts):
            return []
        first = self.cuts[place - 1] if place else -(2**62)
        return [r for r in self.case.rows[name] if first <= r.time < self.cuts[place]]

    def seen(self, batch: int) -> list[int]:
        """Return the times of the rows that have come by the end of a micro-batch."""
        return [r.time for name in self.streams for k in range(batch + 1) for r in self.rows(name, k)]

    def __str__(self) -> str:
        more = f"{self.migrations}, behind {dict(self.behind)}, controls {self.controls}, lateness {self.lateness_us}"
        return f"{self.case}\n  cuts {self.cuts}, changes read in {self.read}, migrations {more}"


def draw_live(rnd: random.Random, methods: Sequence[str], batches: int = 6) -> LiveScript:
    """Draw a live run with changes by some methods, mostly close after one another."""
    case = draw_meeting(rnd, methods)
    return _cut(rnd, case, batches, tick_us(case.rows))


def draw_live_hops(rnd: random.Random, methods: Sequence[str], batches: int = 6) -> LiveScript:
    """Draw a live run with changes from, to and between queries that hop, over streams of which one may lag."""
    case = test_hop_changes.draw_meeting(rnd, methods)
    slow = rnd.choice([None, *case.rows])
    times = [r.time for rows in case.rows.values() for r in rows]
    tick = max(1, (max(times) - min(times)) // len(times))
    behind = () if slow is None else ((slow, rnd.choice([1, 2])),)
    script = _cut(rnd, case, batches, tick, behind, rnd.choice([0, 0, tick, 10 * tick]))
    controls = []
    for _ in range(rnd.choice([0, 0, 0, 1, 1, 2])):
        batch = min(script.batches - 3, max(script.read[0] + rnd.choice([-1, 0, 0, 1, 1, 2]), 0))
        at = max(script.seen(batch), default=None)
        # Of one position changes are asked for first.
        later = [c.position for c, read in zip(script.case.changes, script.read, strict=True) if read > batch]
        if at is not None and at + 1 not in later:
            controls.append((rnd.choice(["istop", "dstop", "dstop", "fstart", "abort"]), batch, at + 1))
    return replace(script, controls=tuple(sorted(controls, key=lambda control: control[1])))


def draw_live_migrating(rnd: random.Random, batches: int = 6) -> LiveScript:
    """Draw a live run with changes between joins, and migrations around them."""
    case, migrations = draw_migrating(rnd)
    script, asked = _cut(rnd, case, batches, tick_us(case.rows)), list[Migration]()
    for _, plan, strategy in migrations:
        batch = rnd.randrange(batches)
        # What it holds back before any change leaves where the change begins, in its own order.
        early = strategy == "parallel-track" and batch < script.read[0] + 2
        asked.append((batch, plan, "hybrid" if early else strategy))
    return replace(script, migrations=tuple(asked))


def _cut(
    rnd: random.Random,
    case: Case,
    batches: int,
    tick: int,
    behind: tuple[tuple[str, int], ...] = (),
    lateness_us: int = 0,
) -> LiveScript:
    """Cut the rows of a case; its changes are read where they were drawn, or a little later."""
    times = sorted({r.time for rows in case.rows.values() for r in rows})
    columns = next(r.values for rows in case.rows.values() for r in rows)
    cuts = sorted(rnd.sample(times[1:], batches - 1)) if len(times) > batches else times[1:]
    # Rows of all streams at the end, so that all others take part before the run ends.
    last = times[-1] + rnd.choice([1, tick, 20 * tick])
    ends = [last, last + max(tick, lateness_us + 1)]
    values = {c: LAST_VALUES.get(c) for c in columns}
    rows = {
        name: [*mine, *(Row(at, number, len(mine) + k, values) for k, at in enumerate(ends))]
        for number, (name, mine) in enumerate(case.rows.items())
    }
    case, cuts = replace(case, rows=rows), [*cuts, last]
    script = LiveScript(case, (*cuts, *(at + 1 for at in ends)), (), behind=behind, lateness_us=lateness_us)
    read, changes = [], []
    for change in case.changes:
        batch = next((k for k, end in enumerate(script.cuts) if change.position < end), len(cuts))
        batch = max([min(batch, len(cuts) - 1), *read[-1:]])
        while not (seen := script.seen(batch)):  # nothing has been read: a later micro-batch reads it
            batch += 1
        read.append(batch)
        changes.append(Change(max(seen) + 1, change.query, change.method))
    return replace(script, case=replace(script.case, changes=tuple(changes)), read=tuple(read))
