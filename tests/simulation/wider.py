"""Wider cases: what half of the seeds draw besides.

a case ──▶ idle, ahead, rows far ahead, few rows that may wait, little kept, another order of rows, stale listings
"""

import random
from dataclasses import replace

from midstream.live.kept import Retention
from midstream.model.timing import Timing
from midstream.plan.plan import Plan
from midstream.plan.query import HOP
from midstream.plan.window import RangeWindow
from simulation.machine import Fault
from simulation.scripts import EXCEPT, FOLDER, JOIN, NUMBERS, Row, Script
from simulation.simulation import Case


def is_wide(seed: int) -> bool:
    """Return whether a seed draws more: neighbours, for kinds of scripts go by the remainder."""
    return seed // 6 % 4 in (1, 2)


def widened(case: Case) -> Case:
    """Return a case with more drawn for it."""
    rnd, script = random.Random(f"wider {case.seed}"), case.script
    times = [row[0] for batch in script.batches for rows in batch.values() for row in rows]
    step = max(1, (max(times) - min(times)) // len(times))
    if rnd.random() < 0.6:
        script = replace(script, timings=tuple(_timing(rnd, script.lateness_us, step) for _ in script.schemas))
        if rnd.random() < 0.5:
            script = _with_rows_ahead(rnd, script, step)
    if rnd.random() < 0.3:
        script = replace(script, waiting=rnd.choice([1, 5, 20]))
    kept = Retention(rnd.choice([None, 1, 2]), rnd.choice([8 << 20, 300, 1_500]), rnd.choice([1, 2, 8]))
    script = replace(script, kept=kept, deleted=rnd.random() < 0.3)
    if script.kind in (JOIN, EXCEPT) and rnd.random() < 0.5:
        script = replace(script, queries=tuple(_dealt_out(rnd, script, step) for _ in script.queries))
    if rnd.random() < 0.9 and all(map(ties_do_not_matter, script.plans)):
        script = replace(script, reorders=True)
    faults = list(case.faults)
    if script.sink == FOLDER and not script.ordered and rnd.random() < 0.4:
        faults += [Fault(rnd.randint(1, 300), "stale parts") for _ in range(rnd.choice([1, 2]))]
    if script.sink != NUMBERS and rnd.random() < 0.2:
        faults.append(Fault(rnd.randint(60, 400), "second query"))
    return replace(case, script=replace(script, tables={}), faults=tuple(sorted(faults)))


def retimed(case: Case, rnd: random.Random) -> Case:
    """Return a case in which runs are started with other timings, in turns, and few rows may wait now and then."""
    script = case.script
    times = [row[0] for batch in script.batches for rows in batch.values() for row in rows]
    step = max(1, (max(times) - min(times)) // len(times))
    turns = tuple(tuple(_timing(rnd, script.lateness_us, step) for _ in script.schemas) for _ in range(3))
    waiting = rnd.choice([None, None, 1, 5, 20])
    script = replace(script, timings=turns[0], retimed=turns[1:], waiting=waiting, tables={})
    return replace(case, script=_with_rows_ahead(rnd, script, step) if rnd.random() < 0.3 else script)


def _timing(rnd: random.Random, lateness_us: int, step: int) -> Timing:
    idle_us = rnd.choice([None, 0, 2 * step, 10 * step])
    ahead_us = rnd.choice([None, step, 5 * step, 40 * step])
    return Timing(rnd.choice([lateness_us, 0, 3 * step]), idle_us, ahead_us)


def _with_rows_ahead(rnd: random.Random, script: Script, step: int) -> Script:
    """Give a script some rows whose times are far ahead."""
    batches = [{name: list(rows) for name, rows in batch.items()} for batch in script.batches]
    for _ in range(rnd.choice([1, 2, 25])):
        rows = rnd.choice(list(rnd.choice(batches).values()))
        if rows:
            rows.insert(rnd.randrange(len(rows) + 1), _later(rnd.choice(rows), rnd.choice([30, 300, 3000]) * step))
    return replace(script, batches=tuple({name: tuple(rows) for name, rows in b.items()} for b in batches))


def _dealt_out(rnd: random.Random, script: Script, step: int) -> str:
    """Return a join whose rows nothing but their content deals out to buckets."""
    first, second = rnd.sample([s.name for s in script.schemas], 2)
    windows = [rnd.choice([1, 3, 10]) * step for _ in range(2)]
    return (
        f"SELECT a.k AS a, b.k AS b FROM {first} [RANGE {windows[0]} MICROSECONDS] a, "
        f"{second} [RANGE {windows[1]} MICROSECONDS] b WHERE a.v {rnd.choice(['<', '>', '<>'])} b.v"
    )


def _later(row: Row, by_us: int) -> Row:
    return (row[0] + by_us, *row[1:])


def ties_do_not_matter(plan: Plan) -> bool:
    """Return whether results are the same rows, whatever order a source gives rows of the same time in."""
    query = plan.query
    in_rows = any(not isinstance(source.window, RangeWindow) for source in query.sources)
    return not in_rows and (query.when == HOP or not (query.takes_back or query.parts.stages))
