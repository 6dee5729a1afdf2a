"""Campaign: drawn scripts in which everything meets, and what must come out of each.

    seed ──▶ streams, queries that slide or hop, changes that overlap, controls, migrations, other hops ──▶ a script
    script ──▶ in process, killed and resumed, by hand, on a cluster that crashes ──▶ rows and records
           └─▶ the oracle of changes ──▶ rows in order, every count of every record

Rows, queries and their meaning are those of the other drawn tests; only what happens to them is drawn here.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from engine.test_hop_recovery import draw_asked

from midstream.change.request import ChangeRequest, ControlRequest
from midstream.engine.bucket.state import Due
from midstream.engine.planning.adapt import parse_adaptation
from midstream.lang.sql import parse_query
from midstream.local.loop import Loop
from midstream.local.replay import make_plan
from midstream.local.sources import RecordedStream, recorded_table
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import PlanError
from midstream.plan.plan import Plan
from oracle import test_changes
from oracle.change_run import Change, Control
from oracle.changes import METHODS, Aggregates, Filter, Join, Query, RowsSlide
from oracle.generate import draw_tree
from oracle.hop_changes import ARROW, HopOracle, HopQuery, output_row
from oracle.hop_generate import _Draw
from oracle.hop_queries import COLUMNS
from oracle.migrations import STRATEGIES, draw_options
from oracle.own_class import OWN
from oracle.test_hop_changes import Case, draw_hopping, draw_streams

CONTROLS = ("istop", "dstop", "fstart", "abort")
NAMES = ("a", "b", "_time", "_version", "_hop", "_sign")
LEAST_ROWS, MOST_ROWS = 20, 1500
"""How many rows a script emits, but for a few that emit fewer."""
Asked = tuple[int, str, str | None, dict[str, object]]
"""A migration: position, plan, strategy, options."""


@dataclass(frozen=True)
class Script:
    """What is read, asked for and happens, and how it is cut."""

    case: Case
    controls: tuple[tuple[str, int], ...] = ()
    migrations: tuple[Asked, ...] = ()
    adapt: str | None = None

    def __str__(self) -> str:
        lines = [f"  at {at} {kind}" for kind, at in self.controls]
        lines += [
            f"  at {at} migrate to {plan} by {strategy} {options}" for at, plan, strategy, options in self.migrations
        ]
        return "\n".join([str(self.case), *lines, *([f"  adapt {self.adapt}"] if self.adapt else [])])

    @property
    def queries(self) -> list[Query]:
        return [self.case.first, *(c.query for c in self.case.changes)]

    @property
    def delayed(self) -> bool:
        return any(c.method == "delayed-drain" for c in self.case.changes)

    @property
    def tables(self) -> dict[str, pa.Table]:
        out = {}
        for name, rows in self.case.rows.items():
            columns = {c: pa.array([r.values[c] for r in rows], ARROW[kind]) for c, kind in COLUMNS.items()}
            out[name] = pa.table({"ts": pa.array([r.time for r in rows], pa.int64()), **columns})
        return out

    @property
    def streams(self) -> tuple[RecordedStream, ...]:
        return tuple(recorded_table(name, table, "ts") for name, table in self.tables.items())

    def plans(self) -> list[Plan]:
        streams = self.streams
        catalog = [s.schema for s in streams]
        return [make_plan(parse_query(q.sql, catalog, OWN), None, "auto", streams) for q in self.queries]

    def schedule(self) -> list[Due]:
        """Return what is asked for, in order of position: of one position changes first, migrations last."""
        out: list[Due] = []
        for k, change in enumerate(self.case.changes):
            method, _, order = change.method.partition("/")
            options = {
                "method": method,
                "audit": True,
                "allow_schema_change": True,
                **({"order": order} if order else {}),
            }
            out.append(ChangeRequest.of(change.query.sql, options, at_us=change.position, identity=str(k + 1)))
        out += [ControlRequest(kind, at, f"c{k}") for k, (kind, at) in enumerate(self.controls)]
        for k, (at, plan, strategy, options) in enumerate(self.migrations):
            out.append(MigrationRequest.of(plan, strategy, options, at_us=at, identity=f"m{k}"))
        return sorted(out, key=lambda due: due.at_us or 0)

    def loop(self) -> Loop:
        first, *later = self.plans()
        case, adapts = self.case, parse_adaptation(self.adapt)
        schedule = self.schedule()
        return Loop(
            first, self.streams, case.batch_us, case.buckets, schedule, versions=tuple(later), adaptation=adapts
        )

    def oracle(self) -> HopOracle:
        hops: list[Control] = [("hop", at, hop) for at, plan, _, _ in self.migrations if (hop := hop_of(plan))]
        return HopOracle(self.case.rows, self.case.first, self.case.changes, [*self.controls, *hops])


def hop_of(words: str) -> int:
    """Return the hop a plan asks for, or 0.

    >>> hop_of("push-down hop=250us"), hop_of("((a b) c)")
    (250, 0)
    """
    found = [word.removeprefix("hop=").removesuffix("us") for word in words.split() if word.startswith("hop=")]
    return int(found[0]) if found else 0


def expected_rows(oracle: HopOracle) -> list[tuple[Any, ...]]:
    """Return what is emitted, in order, with a value for each of NAMES."""
    return [output_row(g, hops=True, signs=True) for g in oracle.given_out()]


def rows_of(tables: Sequence[pa.Table | pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Return rows in order, with a value for each of NAMES, be it None."""
    return [tuple(row.get(name) for name in NAMES) for table in tables for row in table.to_pylist()]


# Draws ---------------------------------------------------------------------------------------------------------------


def over(query: Query, names: dict[str, str]) -> Query:
    """Return a query over streams of other names."""
    if isinstance(query, Filter):
        return replace(query, stream=names[query.stream])
    if isinstance(query, Aggregates):
        below = query.below
        return replace(query, below=names[below] if isinstance(below, str) else over(below, names))
    assert isinstance(query, Join)
    return replace(query, sources=tuple(replace(s, stream=names[s.stream]) for s in query.sources))


def draw_version(rnd: random.Random, draw: _Draw, tick: int) -> Query:
    """Draw a query that slides or hops, often one that takes its time to drain, or that can migrate."""
    kind = rnd.random()
    if kind < 0.35:
        return draw_hopping(draw)
    if kind < 0.6:
        query: Query = test_changes.draw_wide_join(rnd, tick)
    elif kind < 0.8:
        window = RowsSlide(rnd.randint(3, 10), rnd.randint(1, 3), rnd.choice([None, None, "k"]))
        query = Aggregates("s", window, test_changes.draw_outputs(rnd, None, "v", False))
    else:
        query = test_changes.draw_query(rnd, tick, False, "")
    return over(query, dict(zip(test_changes.STREAMS, draw.names, strict=False)))


def draw_migration(rnd: random.Random, query: Query, plan: Plan, at: int, first: int) -> Asked | None:
    """Draw a migration that suits a query; what parallel-track holds back leaves in its own order before a change."""
    if isinstance(query, HopQuery):
        return at, draw_asked(rnd, query.hop_us, hops=True), None, {}
    if not isinstance(query, Join):
        return None
    strategy = rnd.choice(STRATEGIES)
    options = draw_options(rnd, strategy)
    if strategy == "parallel-track" and at <= first:
        options["output"] = "merged"
    tree = draw_tree(rnd, [s.alias for s in query.sources])
    try:
        MigrationRequest.of(tree, strategy, options, at_us=at).checked(plan)
    except PlanError:
        return None
    return at, tree, strategy, options


def draw_script(rnd: random.Random) -> Script:
    """Draw a script; few are to say next to nothing."""
    while True:
        script = draw_any(rnd)
        count = len(script.oracle().given_out())
        if LEAST_ROWS <= count <= MOST_ROWS or (count < LEAST_ROWS and rnd.random() < 0.05):
            return script


def draw_any(rnd: random.Random) -> Script:
    draw, rows = draw_streams(rnd, rnd.choice([24, 40]), least=3)
    while min(len(rows[name]) for name in draw.names[:3]) < 6:
        draw, rows = draw_streams(rnd, rnd.choice([24, 40]), least=3)
    times = sorted(r.time for held in rows.values() for r in held)
    span = times[-1] - times[0] + 1
    tick = max(1, span // len(rows[draw.names[0]])) * rnd.choice([1, 2, 3])
    first = draw_version(rnd, draw, tick)
    at = rnd.choice(times[len(times) // 8 : len(times) * 2 // 3])
    changes: list[Change] = []
    for _ in range(rnd.choice([0, 1, 1, 2, 2, 3, 4])):
        again = [first, *(c.query for c in changes)]
        query = draw_version(rnd, draw, tick) if rnd.random() < 0.7 else rnd.choice(again)
        changes.append(Change(at, query, rnd.choice(METHODS)))
        at += rnd.choice([0, 1, tick, 3 * tick, rnd.randint(0, 12) * tick, rnd.randrange(span // 2 + 1)])
    begin = changes[0].position if changes else at
    near = [begin + rnd.randint(-4, 12) * tick for _ in range(8)] + [rnd.choice(times) for _ in range(4)]
    kinds = [rnd.choice(CONTROLS) for _ in range(rnd.choice([0, 0, 0, 1, 1, 2, 3]))]
    controls = sorted(((kind, rnd.choice(near)) for kind in kinds), key=lambda control: control[1])
    batch_us = rnd.choice([10**12, span + 1, span // 2, span // 7, draw.hop * draw.tick, span // 25])
    case = Case(rows, first, tuple(changes), max(batch_us, span // 40, 1), rnd.choice([1, 1, 2, 3]))
    script = Script(case, tuple(controls))
    plans, migrations = script.plans(), []
    for at in sorted(rnd.choice(near) for _ in range(rnd.choice([0, 1, 1, 2, 3]))):
        begun = [0, *(k for k, c in enumerate(changes, 1) if c.position <= at)]
        k = rnd.choice(begun[-2:])
        found = draw_migration(rnd, script.queries[k], plans[k], at, begin if changes else 2**62)
        migrations += [found] if found is not None else []
    adapt = rnd.choice([None, None, "modes", "plan"]) if isinstance(first, HopQuery) else None
    return replace(script, migrations=tuple(migrations), adapt=adapt)
