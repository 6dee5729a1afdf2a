"""Random runs that look after their plan themselves: joins that decide often, also for the worse."""

import random

import midstream as ms
from midstream.engine.planning.optimizing import AUTO, Optimizing
from midstream.local.loop import Loop
from oracle.generate import Case
from oracle.migrations import draw_dense_case, draw_requests, plan_of, with_times

RESTLESS = Optimizing(AUTO, gain=1.5, at_once=1.0, patience=0.0, share=1e9, fewest=1, fixed=0.0, quiet=0.0, horizon=1e9)
"""Takes any plan that may be better, and some that are worse."""


def draw_optimized(rnd: random.Random) -> tuple[Case, Loop]:
    """Draw a join of three or more streams that is optimized while it runs; some are migrated by hand as well."""
    case = with_times(draw_dense_case(rnd))
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    planned = engine.query(case.sql, plan=case.tree, join=case.join)
    requests = draw_requests(rnd, case, plan_of(case), ["auto"]) if rnd.random() < 0.3 else []
    requests = [r for r in requests if r.output == "buffered" and not r.background]
    batch_us, buckets = rnd.choice([250_000, 1_000_000, 3_000_000]), rnd.choice([1, 1, 2, 3])
    framework = rnd.choice(["tree", "tree", "tree", "stairs", "cacq"])
    loop = Loop(planned.plan, planned.streams, batch_us, buckets, requests, framework, optimizing=RESTLESS)
    return case, loop
