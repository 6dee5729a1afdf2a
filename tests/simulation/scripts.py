"""Scripts of the simulation: what micro-batches bring, what users ask for and when, and how the query runs.

seed ──▶ rows and queries of the other drawn tests ──▶ micro-batches, late and silent streams ──▶ a script
                                                  └──▶ changes, migrations, controls, stops, by whom
"""

import functools
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from midstream.lang.sql import parse_query
from midstream.live.kept import Retention
from midstream.local.replay import make_plan
from midstream.local.sites import DeclaredSites
from midstream.model.stream import StreamSchema
from midstream.model.timing import Timing
from midstream.plan.plan import Plan
from oracle import campaign
from oracle.changes import METHODS, Query
from oracle.hop_changes import HopQuery
from oracle.test_changes import STREAMS, draw_meeting, draw_migrating, draw_rows, draw_wide_join, tick_us

FOLDER, TABLE, NUMBERS = "folder", "table", "numbers"
"""Kinds of sinks."""
JOIN, EXCEPT = "join", "except"
KINDS = (JOIN, "changes", "migrating", "any", "any", EXCEPT)
CHANGE, MIGRATE, CONTROL, SNAPSHOT, STOP, DRAIN, REGISTERED = (
    "change", "migrate", "control", "snapshot", "stop", "drain", "registered",
)  # fmt: skip
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Action:
    """What a user asks for before a micro-batch is planned."""

    batch: int
    what: str
    arguments: tuple[Any, ...] = ()
    here: bool = False
    """In the process of the driver; else in one of its own."""

    def __str__(self) -> str:
        return f"{self.batch}: {self.what} {self.arguments}{' here' if self.here else ''}"


@dataclass(frozen=True)
class Script:
    """A live run, without faults."""

    kind: str
    queries: tuple[str, ...]
    """SQL; the first is the one that is started."""
    schemas: tuple[StreamSchema, ...]
    batches: tuple[dict[str, tuple[Row, ...]], ...]
    """The rows that each micro-batch brings of each stream."""
    actions: tuple[Action, ...]
    labels: tuple[int, ...]
    sink: str = FOLDER
    ordered: bool = False
    lateness_us: int = 0
    partitions: int = 1
    other_default: bool = False
    """The host's default file system is another one than that of the checkpoint."""
    timings: tuple[Timing, ...] = ()
    """By stream, where there is more to say than the lateness."""
    retimed: tuple[tuple[Timing, ...], ...] = ()
    """Those that runs are started with in turns, after the first one: users change their minds."""
    waiting: int | None = None
    """How many rows may wait."""
    kept: Retention = field(default_factory=lambda: Retention(control_rows=2))
    reorders: bool = False
    """A source gives its rows in another order whenever it is read."""
    framework: str = "tree"
    sites: DeclaredSites | None = None
    """Where streams arrive, if they are joined there."""
    deleted: bool = False
    """This process has run another query in the same folders, which was deleted since."""
    tables: dict[tuple[int, str], list[pa.Table | None]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def plans(self) -> list[Plan]:
        return [planned(sql, self.schemas) for sql in self.queries]

    def timings_of(self, start: int) -> tuple[Timing, ...]:
        """Return how the rows of each stream are judged when a driver is started for so many times, from 1 on."""
        first = self.timings or tuple(Timing(self.lateness_us) for _ in self.schemas)
        turns = (first, *self.retimed)
        return turns[(start - 1) % len(turns)]

    def planned(self, query: Any, plan: str | None, join: str) -> Plan:
        """Plan a query, as the process that started the run does."""
        return planned(str(query), self.schemas)

    def parts(self, batch: int, stream: str) -> list[pa.Table | None]:
        """Return the partitions that a micro-batch has of a stream."""
        if batch >= len(self.batches):
            return [None]
        if (batch, stream) not in self.tables:
            rows = self.batches[batch].get(stream, ())
            schema = next(s.columns for s in self.schemas if s.name == stream)
            count = min(self.partitions, len(rows)) or 1
            cuts = [len(rows) * k // count for k in range(count + 1)]
            self.tables[batch, stream] = [_table(rows[a:b], schema) for a, b in itertools.pairwise(cuts)]
        return self.tables[batch, stream]

    def __str__(self) -> str:
        lines = [
            f"{self.kind}: buckets {self.labels}, {self.sink}, ordered {self.ordered}, lateness {self.lateness_us}"
        ]
        if self.timings or self.retimed or self.waiting or self.reorders or self.deleted:
            said = f"timings {self.timings}, then {self.retimed}, waiting {self.waiting}, {self.kept}"
            lines.append(f"  {said}, reorders {self.reorders}, deleted {self.deleted}")
        lines += [f"  query {n}: {sql}" for n, sql in enumerate(self.queries)]
        lines += [f"  batch {n}: {rows}" for n, rows in enumerate(self.batches)]
        return "\n".join([*lines, *(f"  before batch {action}" for action in self.actions)])


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table | None:
    if not rows:
        return None
    columns = zip(zip(*rows, strict=True), schema.types, strict=True)
    return pa.Table.from_arrays([pa.array(values, kind) for values, kind in columns], schema=schema)


@functools.lru_cache(maxsize=512)
def _planned(sql: str, schemas: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]) -> Plan:
    catalog = [_schema(name, columns) for name, columns in schemas]
    return make_plan(parse_query(sql, catalog))


@functools.cache
def _schema(name: str, columns: tuple[tuple[str, str], ...]) -> StreamSchema:
    return StreamSchema(name, pa.schema([(n, pa.type_for_alias(t)) for n, t in columns]), "ts")


def planned(sql: str, schemas: Sequence[StreamSchema]) -> Plan:
    """Plan a query; the plan of one text is made once."""
    return _planned(sql, tuple((s.name, tuple((f.name, str(f.type)) for f in s.columns)) for s in schemas))


# Draws ---------------------------------------------------------------------------------------------------------------


def draw_script(seed: int) -> Script:
    """Draw a script."""
    rnd = random.Random(f"script {seed}")
    kind = KINDS[seed % len(KINDS)]
    return {JOIN: _join, "changes": _changes, "migrating": _migrating, "any": _any, EXCEPT: _except}[kind](rnd)


def _join(rnd: random.Random) -> Script:
    rows = draw_rows(rnd, 40)
    query = draw_wide_join(rnd, tick_us(rows))
    return _cut(rnd, JOIN, [query], rows, [])


def _changes(rnd: random.Random) -> Script:
    case = draw_meeting(rnd, [rnd.choice(METHODS) for _ in range(rnd.choice([1, 1, 2, 2, 3]))])
    queries = [case.first, *(c.query for c in case.changes)]
    asked = [(c.position, CHANGE, (k, c.method)) for k, c in enumerate(case.changes, 1)]
    return _cut(rnd, "changes", queries, case.rows, asked)


def _migrating(rnd: random.Random) -> Script:
    case, migrations = draw_migrating(rnd)
    queries = [case.first, *(c.query for c in case.changes)]
    asked: list[Any] = [(c.position, CHANGE, (k, c.method)) for k, c in enumerate(case.changes, 1)]
    asked += [(at, MIGRATE, (plan, "hybrid" if s == "parallel-track" else s, ())) for at, plan, s in migrations]
    return _cut(rnd, "migrating", queries, case.rows, sorted(asked, key=lambda a: int(a[0])))


def _any(rnd: random.Random) -> Script:
    drawn = campaign.draw_any(rnd)
    asked: list[Any] = [(c.position, CHANGE, (k, c.method)) for k, c in enumerate(drawn.case.changes, 1)]
    asked += [(at, CONTROL, (kind,)) for kind, at in drawn.controls]
    asked += [(at, MIGRATE, (plan, s, tuple(sorted(o.items())))) for at, plan, s, o in drawn.migrations]
    return _cut(rnd, "any", drawn.queries, drawn.case.rows, sorted(asked, key=lambda a: int(a[0])))


def _except(rnd: random.Random) -> Script:
    rows = draw_rows(rnd, 40)
    tick = tick_us(rows)

    def side(name: str) -> str:
        where = f" WHERE {name}.v <> {rnd.randint(0, 6)}" if rnd.random() < 0.6 else ""
        return (
            f"(SELECT {name}.k AS a, {name}.v AS b FROM {name} [RANGE {rnd.randint(1, 8) * tick} MICROSECONDS]{where})"
        )

    queries = [f"{side('s')} EXCEPT {side(rnd.choice('ru'))}" for _ in range(2)]
    asked = [(rnd.choice(rows["s"]).time, CHANGE, (1, "immediate"))] if rnd.random() < 0.7 else []
    return _cut(rnd, EXCEPT, queries, rows, asked)


def _cut(rnd: random.Random, kind: str, queries: Sequence[Query | str], rows: Any, asked: Sequence[Any]) -> Script:
    """Cut rows into micro-batches; what is asked for at a time is asked before the micro-batch that has it."""
    names = STREAMS if set(rows) == set(STREAMS) else list(rows)
    columns = list(next(r.values for held in rows.values() for r in held))
    schemas = [_schema(n, (("ts", "int64"), *((c, _TYPES[c]) for c in columns))) for n in names]
    times = sorted({r.time for held in rows.values() for r in held})
    count = rnd.choice([3, 4, 5, 6])
    cuts = sorted(rnd.sample(times[1:], min(count - 1, len(times) - 1))) if len(times) > 1 else []
    ends = [*cuts, times[-1] + 1]
    batches: list[dict[str, list[Row]]] = [{n: [] for n in names} for _ in ends]
    slow = rnd.choice([None, None, *names])
    late = rnd.choice([0.0, 0.0, 0.1])
    for name in names:
        behind = rnd.choice([1, 2]) if name == slow else 0
        for row in rows[name]:
            place = next(k for k, end in enumerate(ends) if row.time < end) + behind + (rnd.random() < late)
            while place >= len(batches):
                batches.append({n: [] for n in names})
            batches[place][name].append((row.time, *row.values.values()))
    step = max(1, (times[-1] - times[0]) // len(times))
    for k in range(2):  # rows of all streams at the end, so that all others take part
        last = times[-1] + (k + 1) * rnd.choice([1, step, 20 * step])
        batches.append({n: [(last, *(0 if _TYPES[c] == "int64" else None for c in columns))] for n in names})
    actions = [
        Action(next((k for k, end in enumerate(ends) if at < end), len(ends)), what, arguments, rnd.random() < 0.3)
        for at, what, arguments in asked
    ]
    for what, chance in ((STOP, 0.3), (DRAIN, 0.2), (SNAPSHOT, 0.2), (STOP, 0.1)):
        if rnd.random() < chance:
            actions.append(Action(rnd.randrange(len(batches)), what, (), rnd.random() < 0.3))
    if rnd.random() < 0.15 and len(queries) > 1:
        actions.append(
            Action(rnd.randrange(len(batches)), REGISTERED, (rnd.randrange(len(queries)), rnd.choice(METHODS)))
        )
    actions.sort(key=lambda a: a.batch)
    hops = [isinstance(q, HopQuery) and q.emit == "delta" for q in queries]
    sink = TABLE if all(hops) else rnd.choice([FOLDER, FOLDER, FOLDER, NUMBERS])
    return Script(
        kind,
        tuple(q if isinstance(q, str) else q.sql for q in queries),
        tuple(schemas),
        tuple({n: tuple(held) for n, held in batch.items()} for batch in batches),
        tuple(actions),
        rnd.choice([(4,), (4,), (4, 7), (4, 7), (1, 2, 5)]),
        sink,
        rnd.random() < 0.5,
        rnd.choice([0, 0, step, 4 * step]),
        rnd.choice([1, 1, 2]),
        rnd.random() < 0.5,
    )


_TYPES = {"k": "int64", "v": "int64", "x": "double", "s": "string"}


def without(script: Script, **less: Any) -> Script:
    """Return a smaller script."""
    return replace(script, tables={}, **less)
