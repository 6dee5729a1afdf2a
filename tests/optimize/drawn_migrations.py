"""Drawn migrations between two join orders over steady streams: what is predicted of strategies, what is counted."""

import random
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
import pyarrow as pa

import midstream as ms
from benchmarks.direct import DirectRun
from midstream.lang.sql import parse_query
from midstream.local.sources import recorded_table
from midstream.local.statistics import gather
from midstream.migrate.request import OF_JOINS, MigrationRequest
from midstream.model.statistics import Statistics
from midstream.optimize.migration_work import Done, MigrationWork
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import parse_tree
from oracle.generate import Case, draw_tree
from oracle.test_moved_states import rows_between

SECOND_US = 1_000_000
BEGINS_S, BATCH_S = 5, 0.5
LEAST, MOST = 2_000, 1_000_000
"""Evaluations in a window that a plan may be expected to take."""


@dataclass(frozen=True)
class Measured:
    """A strategy: what was predicted of it, and what was counted until no old row mattered."""

    strategy: str
    predicted: Done
    evaluations: int
    entries: int


@dataclass(frozen=True)
class Drawn:
    """Streams, a query, and two plans of it."""

    case: Case
    running: Plan
    target: Plan
    statistics: Statistics
    work: MigrationWork

    def measure(self, strategy: str) -> Measured:
        """Migrate, and count until no old row matters."""
        begin_us, end_us = BEGINS_S * SECOND_US, round((BEGINS_S + self.work.lasts_s) * SECOND_US)
        request = MigrationRequest.of(str(self.target), strategy, at_us=begin_us, identity="1")
        run = DirectRun(self.running, 1, [request])
        step_us = round(BATCH_S * SECOND_US)
        bounds = [begin_us, *range(begin_us + step_us, end_us, step_us), end_us]
        before = 0
        for bound, rows in zip(bounds, rows_between(self.case, run, bounds), strict=True):
            for _ in run.on_rows(rows):
                pass
            before = run.predicate_evaluations if bound == begin_us else before
        (record,) = run.records()
        counted = run.predicate_evaluations - before
        return Measured(strategy, self.work.of(strategy, BATCH_S), counted, record.entries_completed)

    def measured(self) -> list[Measured]:
        """Migrate by each strategy."""
        return [self.measure(strategy) for strategy in OF_JOINS]


def draw_migration(seed: int) -> Drawn:
    """Draw a query and two orders of it that take some, but not endless work."""
    return next(drawn for more in count() if (drawn := _draw(seed * 1000 + more)) is not None)


def _draw(seed: int) -> Drawn | None:
    """Draw three to five streams that are joined in a chain, a star, on one key or by comparisons, and two orders."""
    rnd, numbers = random.Random(seed), np.random.default_rng(seed)
    shape = rnd.choice(["chain", "star", "one key", "one key", "theta"])
    names = list("abcde")[: rnd.randint(3, 4 if shape == "theta" else 5)]
    join, width, same = rnd.choice(["auto", "auto", "nested-loop"]), rnd.choice([2, 3, 4]), rnd.random() < 0.6
    streams, windows = {}, {}
    for name in names:
        rate = rnd.choice([20, 40] if shape == "theta" else [40, 80, 160])
        rows = rate * (BEGINS_S + 4)
        keys = rnd.choice([40, 80, 160])
        times = np.sort(numbers.integers(0, (BEGINS_S + 4) * SECOND_US, rows))
        columns = {c: _keys(rnd, numbers, keys, rows) for c in "kl"}
        columns |= {c: numbers.integers(0, 100, rows) for c in "vw"}
        streams[name] = pa.table({"ts": times, **columns})
        own = width if same else rnd.choice([2, 3, 4])
        windows[name] = f"RANGE {own} SECONDS" if rnd.random() < 0.8 else f"ROWS {rate * own}"
    where = []
    for before, name in pairwise(names):
        if shape == "theta":
            where.append(f"{before}.v + 70 < {name}.w")
        elif shape == "chain":
            where.append(f"{before}.l = {name}.k")
        else:
            where.append(f"{names[0]}.{'k' if shape == 'one key' else rnd.choice('kl')} = {name}.k")
    where += [f"{name}.v < {rnd.choice([30, 80])}" for name in names if rnd.random() < 0.3]
    sources = ", ".join(f"{name} [{windows[name]}]" for name in names)
    sql = f"SELECT {names[0]}.v FROM {sources} WHERE {' AND '.join(where)}"
    return _with_plans(rnd, names, join, streams, sql)


def _with_plans(
    rnd: random.Random, names: list[str], join: str, streams: dict[str, pa.Table], sql: str
) -> Drawn | None:
    engine = ms.Engine()
    for name, rows in streams.items():
        engine.stream(name, rows, time="ts")
    recorded = [recorded_table(name, rows, "ts") for name, rows in streams.items()]
    statistics = gather(parse_query(sql, [r.schema for r in recorded]), recorded)
    assert statistics is not None
    for _ in range(10):
        running = engine.query(sql, plan=draw_tree(rnd, names), join=join).plan
        assert isinstance(running, Plan)
        target = ordered_plan(running.query, parse_tree(draw_tree(rnd, names), names), running.method)
        work = MigrationWork(running, target, statistics)
        if (
            running != target
            and LEAST < min(work.old_alone, work.new_alone) <= max(work.old_alone, work.new_alone) < MOST
        ):
            case = Case(streams, [(n, n) for n in names], {}, [], [], str(running))
            return Drawn(case, running, target, statistics, work)
    return None


def _keys(rnd: random.Random, numbers: np.random.Generator, values: int, count: int) -> np.ndarray:
    """Draw keys: evenly spread, or few of them most of the time."""
    if rnd.random() < 0.7:
        return numbers.integers(0, values, count)
    return np.minimum(numbers.geometric(0.1, count), values)
