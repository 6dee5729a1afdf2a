"""General migrations: whose turn it is, what supersedes them, what their records say, what is handed over."""

from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.app.engine import Run
from midstream.migrate.request import GENERAL, MigrationRequest
from midstream.model.errors import PlanError

JOIN = "SELECT a.k, b.v FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS], c [RANGE 1 SECOND] WHERE a.k = b.k AND b.k = c.k"
COUNTED = f"SELECT COUNT(*) AS n, SUM(v) AS total FROM ({JOIN}) [ROWS 7 SLIDE 3]"
BETWEEN = f"SELECT COUNT(*) AS n, SUM(v) AS total FROM ({JOIN}) [START WHEN v % 5 = 0 END WHEN v % 7 = 0]"
HOPPING = "SELECT k, COUNT(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY k HOP BY 1 SECOND EMIT DELTA"


def started(sql: str, plan: str | None = "((a b) c)", **options: Any) -> Run:
    engine = ms.Engine()
    for place, name in enumerate("abc"):
        rows = {"ts": [k * 100_000 + place for k in range(100)], "k": [k % 5 for k in range(100)], "v": range(100)}
        engine.stream(name, pa.table({n: pa.array(v, pa.int64()) for n, v in rows.items()}), time="ts")
    run = engine.query(sql, plan=plan).start(paused=True, batch="200 ms", **options)
    assert isinstance(run, Run)
    return run


def states(run: Run) -> list[str]:
    return [record["state"] for record in run.migrations()]


@pytest.mark.parametrize("sql", [JOIN, COUNTED, BETWEEN])
@pytest.mark.parametrize("strategy", GENERAL)
def test_what_counts_from_the_start_goes_on_counting(strategy: str, sql: str) -> None:
    plain, run = started(sql), started(sql)
    run.advance(until=4_000_000)
    run.migrate("(a (b c))", strategy, **({"rows": 7} if strategy == "general-hybrid" else {}))
    for r in (plain, run):
        r.finish()
    assert states(run) == ["finished"]
    assert run.table() == plain.table()
    assert plain.table().num_rows > 5


@pytest.mark.parametrize("strategy", GENERAL)
def test_it_takes_effect_at_its_position(strategy: str) -> None:
    run = started(JOIN)
    run.advance(until=4_150_000)
    run.migrate("(a (b c))", strategy)
    assert run.migrations()[0]["position_us"] == run.migrations()[0]["asked_us"]
    run.finish()


def test_others_wait_for_their_turn() -> None:
    run = started(JOIN)
    run.advance(until=3_000_000)
    for plan, strategy in (
        ("(a (b c))", "general-parallel-track"),
        ("((a c) b)", "just-in-time"),
        ("(b (a c))", "general-moving-state"),
    ):
        run.migrate(plan, strategy)
    assert states(run) == ["running", "queued", "queued"]
    run.finish()
    assert states(run) == ["finished"] * 3
    first, second, third = run.migrations()
    assert first["duration_us"] == 2_000_000
    assert first["ended_us"] <= second["position_us"] <= third["position_us"]


def test_a_change_supersedes_what_is_under_way_and_what_waits() -> None:
    run, plain = started(JOIN), started(JOIN)
    for r in (run, plain):
        r.advance(until=3_000_000)
        if r is run:
            r.migrate("(a (b c))", "general-parallel-track")
            r.migrate("((a c) b)", "general-moving-state")
        r.advance(until=3_500_000)
        r.change(f"{JOIN} AND a.k > 1", "drain")
        r.finish()
    assert states(run) == ["superseded", "superseded"]
    assert [record["reason"] for record in run.migrations()] == ["the query was changed first"] * 2
    assert run.table() == plain.table()


def test_the_record_says_what_was_expected_and_what_was_counted() -> None:
    run = started(JOIN)
    run.advance(until=5_000_000)
    for plan, strategy in (("(a (b c))", "general-moving-state"), ("((a b) c)", "general-parallel-track")):
        run.migrate(plan, strategy)
        run.advance(until=9_000_000)
    moving, track = run.migrations()
    assert (moving["rows_new"], moving["duration_us"]) == (0, 0)
    assert moving["rows_old"] == pytest.approx(moving["predicted"]["rows"], rel=0.1)
    assert moving["predicate_evaluations"] == pytest.approx(moving["predicted"]["predicate_evaluations"], rel=0.25)
    assert run.migrations()[1]["state"] == "running", "its window is not over"
    assert track["predicted"]["duration_us"] == 2_000_000
    assert 0 < moving["predicted"]["spike_ms"] < moving["predicted"]["start_ms"]
    assert track["predicted"]["work_ms"] > moving["predicted"]["start_ms"] == moving["predicted"]["delay_ms"]
    assert 0 < track["predicted"]["delay_ms"] < moving["predicted"]["delay_ms"]
    assert moving["work_ms"] == moving["start_ms"] > 0
    run.finish()
    assert run.migrations()[1]["work_ms"] > run.migrations()[1]["start_ms"] > 0


def test_what_is_asked_is_checked() -> None:
    with pytest.raises(PlanError, match="rows must be a whole number from 1 on, not 0"):
        MigrationRequest.of("(a b)", "general-hybrid", {"rows": 0})
    with pytest.raises(PlanError, match="option 'rows' is for general-hybrid, not for general-moving-state"):
        MigrationRequest.of("(a b)", "general-moving-state", {"rows": 5})
    run = started(HOPPING, "as-written modes=complete")
    run.advance(until=3_000_000)
    with pytest.raises(PlanError, match="goes on at the hops there are"):
        run.migrate("same hop=2s", "general-hybrid")
    with pytest.raises(PlanError, match="option 'rows' is for sliding joins"):
        run.migrate("same modes=complete", rows=5)
    run.migrate("same modes=delta", "general-hybrid", rows=5)
    run.finish()
    assert states(run) == ["finished"]
