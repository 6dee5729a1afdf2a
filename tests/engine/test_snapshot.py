"""Operators that were taken apart and put together go on as those they were; functions of the user are given anew."""

import datetime as dt
import decimal
from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.planning.plans import migrated
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Framework, Kept, RunSpec, VersionRun
from midstream.engine.run.family import family_of
from midstream.engine.snapshot.form import put_together, take_apart
from midstream.model.errors import StateError
from midstream.plan.json import own_aggregates
from midstream.plan.plan import Plan
from seeds import few_quick

ROWS = 400
SECOND = 1_000_000
QUERIES = {
    "join": "SELECT a.s, b.m, a.d FROM a [RANGE 5 SECONDS], b [ROWS 7 PARTITION BY k] WHERE a.k = b.k AND a.s <> b.s",
    "groups": "SELECT s, spread(x) AS n, SUM(m) AS m, MAX(d) AS d FROM a [ROWS 20 SLIDE 3 PARTITION BY s] GROUP BY s",
    "stages": "SELECT s, COUNT(DISTINCT d) AS n, MEDIAN(x) AS x FROM (SELECT a.s, b.d, b.x "
    "FROM a [RANGE 2 SECONDS], b [ROWS 3] WHERE a.k = b.k) [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY s",
    "except": "SELECT s, m, d FROM a [RANGE 5 SECONDS] EXCEPT SELECT s, m, d FROM b [ROWS 9]",
    "hops": "SELECT a.s, b.m, a.d FROM a [RANGE 3 SECONDS], b [ROWS 20] WHERE a.k = b.k HOP BY 1 SECOND EMIT DELTA",
    "hop groups": "SELECT s, m, spread(x) AS n, SUM(m) AS t, MIN(d) AS d FROM a [RANGE 4 SECONDS] GROUP BY s, m "
    "HOP BY 500 MILLISECONDS",
    "hop except": "SELECT m, d FROM a [RANGE 3 SECONDS] EXCEPT SELECT m, d FROM b [ROWS 30] HOP BY 1 SECOND",
}  # fmt: skip


def spread(values: pa.Array) -> float:
    found = values.to_pylist()
    return float(max(found) - min(found))


def columns(seed: int) -> dict[str, pa.Array]:
    rng = np.random.default_rng(seed)
    some = rng.integers(0, 6, ROWS)
    return {
        "ts": pa.array(np.sort(rng.integers(0, 20 * SECOND, ROWS)), pa.timestamp("us")),
        "k": pa.array(some),
        "x": pa.array(rng.random(ROWS)),
        "s": pa.array([None if n == 5 else f"ä{n}" * n for n in some]),
        "m": pa.array([decimal.Decimal(int(n)).scaleb(-3) for n in some], pa.decimal128(20, 3)),
        "d": pa.array([dt.date(2000, 1, 1 + int(n)) for n in some]),
    }


STREAMS = {name: columns(number) for number, name in enumerate("ab")}


def plan_of(sql: str) -> Plan:
    engine = ms.Engine()
    for name, held in STREAMS.items():
        engine.stream(name, pa.table(held), time="ts")
    engine.aggregate("spread", spread, returns=pa.float64())
    return engine.query(sql).plan


def step(run: VersionRun, plan: Plan, since: int, upto: int) -> list[Any]:
    """Let a run take the rows of a stretch of time; return what leaves."""
    rows = {}
    for source in plan.query.sources:
        held = STREAMS[source.stream.name]
        times = held["ts"].cast(pa.int64()).to_numpy()
        mine = Rows(times, np.arange(ROWS), {c: held[c] for c in plan.query.columns_of(source.alias)})
        rows[source.alias] = mine.where((times >= since) & (times < upto))
    run.begin_batch()
    if not since:
        run.begin_at(int(min(r.times[0] for r in rows.values())))
    run.take(rows, upto, upto)
    return [item.results.rows.to_pylist() for item in run.leaving]


@pytest.mark.parametrize(
    ("name", "framework"), few_quick([("join", "cacq"), *((name, "tree") for name in QUERIES), ("join", "stairs")], 4)
)
def test_a_run_goes_on_as_it_was(name: str, framework: str) -> None:
    plan = plan_of(QUERIES[name])
    spec = RunSpec(True, Framework(framework, "ticket"), planner=migrated)
    run = again = family_of(plan).rebuild(1, plan, spec, Kept())
    for since in range(0, 20 * SECOND, 3 * SECOND):
        upto = since + 3 * SECOND
        description, arrays = take_apart(again.export())
        exported = put_together(
            description, [a.copy() for a in arrays], own_aggregates(plan_of(QUERIES[name]).query.root)
        )
        assert take_apart(exported)[0] == description
        again = family_of(plan).adopt(1, spec, exported, again.remember())
        assert step(again, plan, since, upto) == step(run, plan, since, upto)


def test_an_aggregate_that_is_not_given_is_named() -> None:
    plan = plan_of(QUERIES["groups"])
    run = family_of(plan).rebuild(1, plan, RunSpec(), Kept())
    with pytest.raises(StateError, match="a state needs the aggregate SPREAD, which is not registered"):
        put_together(*take_apart(run.export()))


def test_what_is_shared_is_shared_and_what_is_a_value_is_equal() -> None:
    shared = [1, 2.5, -0.0, None, True, "ä", float("inf")]
    draws = np.random.default_rng(7)
    draws.integers(0, 2**32, 3, np.uint32)
    array = np.arange(6.0).reshape(2, 3)
    before = {
        "x": shared, "y": shared, (1, "z"): {3, 4}, "f": frozenset("ab"), "q": deque([shared], maxlen=3),
        "values": [decimal.Decimal("1.500"), dt.date(2020, 1, 2), dt.timedelta(microseconds=-1), pa.decimal128(3, 1)],
        "arrays": [array, array, np.zeros((0, 4), np.int32), np.array([True])], "n": np.int32(-5), "draws": draws,
        "big": np.arange(5000), "rows": pa.record_batch({"a": ["x", None]}),
    }  # fmt: skip
    before["itself"] = before
    after = put_together(*take_apart(before))
    assert after["x"] is after["y"] is after["q"][0]
    assert after["x"] == shared
    assert [type(v) for v in after["x"]] == [type(v) for v in shared]
    assert str(after["x"][2]) == "-0.0"
    assert after["itself"] is after
    assert (after["q"].maxlen, after[1, "z"], after["f"]) == (3, {3, 4}, frozenset("ab"))
    assert after["values"] == before["values"]
    assert str(after["values"][0]) == "1.500"
    assert after["arrays"][0] is after["arrays"][1]
    assert [a.tolist() for a in after["arrays"]] == [a.tolist() for a in before["arrays"]]  # type: ignore[attr-defined]
    assert [a.shape for a in after["arrays"]] == [(2, 3), (2, 3), (0, 4), (1,)]
    after["arrays"][0][0, 0] = 9.0
    assert (after["n"], type(after["n"])) == (-5, np.int32)
    assert after["draws"].random(3).tolist() == draws.random(3).tolist()
    assert after["big"].tolist() == list(range(5000))
    assert after["rows"].equals(before["rows"])
