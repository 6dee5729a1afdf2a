"""A change during a migration, or after one, and other meetings that once went wrong."""

import pyarrow as pa
import pytest

import midstream as ms
from midstream.app.engine import Run
from midstream.model.errors import MidstreamError
from seeds import few_quick

STEP_US = 50_000
ROWS = pa.table({"ts": [n * STEP_US for n in range(60)], "k": [1] * 60, "v": list(range(60))})


def joined(width_ms: int) -> str:
    windows = ", ".join(f"{name} [RANGE {width_ms} MILLISECONDS]" for name in "abc")
    return f"SELECT a.v AS a, b.v AS b, c.v AS c FROM {windows} WHERE a.k = b.k AND b.k = c.k"


def started(sql: str, batch: int) -> Run:
    engine = ms.Engine()
    for name in "abc":
        engine.stream(name, ROWS, time="ts")
    run = engine.query(sql, plan="((a b) c)" if "b." in sql else None).start(paused=True, batch=batch)
    assert isinstance(run, Run)
    return run


@pytest.mark.parametrize("method", ["immediate", "drain", "delayed-drain", "graceful-immediate", "graceful-drain"])
@pytest.mark.parametrize("batch", few_quick([10**9, STEP_US]))
def test_what_a_migration_holds_back_is_neither_lost_nor_let_out_late(method: str, batch: int) -> None:
    found = []
    for migrates in (False, True):
        run = started(joined(100), batch).advance(500_000)
        if migrates:
            run.migrate("((a c) b)", "parallel-track")
        run.advance(550_000).change(joined(150), method)
        run.advance(800_000)
        if migrates:
            run.migrate("(a (b c))", "parallel-track")
        found.append(sorted(map(tuple, (row.values() for row in run.finish().table().to_pylist()))))
    assert found[0] == found[1]
    assert found[0]


def test_a_start_behind_an_abort_is_that_of_the_version_that_ran() -> None:
    run = started("SELECT SUM(v) AS total FROM a [ROWS 5 SLIDE 1]", 10**6).advance(500_000)
    run.change("SELECT SUM(v) AS total FROM a [ROWS 40 SLIDE 1]", "graceful-drain")
    run.advance(600_000).control("abort").control("istop").advance(900_000).control("fstart")
    assert set(run.finish().table().column("_version").to_pylist()) == {1}


@pytest.mark.parametrize(("control", "started_us"), [("dstop", None), ("fstart", 600_000)])
def test_a_version_that_waits_is_told_to_be_stopped_or_started(control: str, started_us: int | None) -> None:
    run = started("SELECT SUM(v) AS total FROM a [ROWS 5 SLIDE 1]", 10**6).advance(500_000)
    run.change("SELECT SUM(v) AS total FROM a [ROWS 2 SLIDE 1]", "delayed-drain")
    run.advance(600_000).control(control).finish()
    assert (run.changes()[0]["state"], run.changes()[0]["started_us"]) == ("stopped", started_us)


def test_a_difference_cannot_be_drained() -> None:
    run = started("SELECT k FROM a [ROWS 2] EXCEPT SELECT k FROM b [ROWS 1]", 10**6).advance(500_000)
    with pytest.raises(MidstreamError, match="difference takes results back"):
        run.control("dstop")
    run.control("istop").finish()


def test_a_run_that_has_failed_does_not_go_on() -> None:
    calls = iter(range(100))

    def fails_once(values: pa.Array) -> int:
        if next(calls) == 7:
            raise ValueError("no\nmore")
        return len(values)

    engine = ms.Engine().stream("a", ROWS, time="ts").aggregate("fails_once", fails_once, "BIGINT")
    run = engine.query("SELECT FAILS_ONCE(v) AS n FROM a [ROWS 2 SLIDE 1]").start(paused=True)
    with pytest.raises(MidstreamError, match=r"fails_once has failed \(ValueError: no more\)"):
        run.finish()
    with pytest.raises(MidstreamError, match="has failed"):
        run.finish()
    assert run.status()["state"] == "failed"


@pytest.mark.parametrize("wrong", [3, None, "stop"])
def test_what_is_no_control_element_changes_nothing(wrong: object) -> None:
    run = started("SELECT v FROM a", 10**6).advance(500_000)
    with pytest.raises(MidstreamError, match="control is"):
        run.control(wrong)  # type: ignore[arg-type]
    with pytest.raises(MidstreamError, match=r"query|text"):
        run.change(wrong if wrong != "stop" else 5)  # type: ignore[arg-type]
    assert run.finish().table().num_rows == 60
