"""Changes that meet: the cases that once went wrong, with the numbers they must have (decision 29)."""

import pyarrow as pa
import pytest

import midstream as ms
from midstream.app.engine import Run

ROWS = pa.table({"ts": list(range(300)), "k": [n % 3 for n in range(300)], "v": [n % 7 for n in range(300)]})


def total(count: int, slide: int = 1) -> str:
    return f"SELECT SUM(v) AS total FROM s [ROWS {count} SLIDE {slide}]"


def run_with(first: str, *changes: tuple[int, str, str], batch: int = 1000) -> Run:
    run = ms.Engine().stream("s", ROWS, time="ts").query(first).start(paused=True, batch=batch)
    assert isinstance(run, Run)
    for at, sql, method in changes:
        name, _, order = method.partition("/")
        run.advance(at).change(sql, name, order or None)
    return run.finish()


def given(run: Run, version: int) -> int:
    return run.table().column("_version").to_pylist().count(version)


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 7, 1000])
@pytest.mark.parametrize("second", ["drain/stream", "drain/query", "graceful-drain"])
def test_a_stop_that_waits_is_void_where_the_next_change_loses_nothing(second: str, batch: int) -> None:
    """From row 100 on version 2 would answer with row 109 and stop version 1, which owes 49 results from row 105 on."""
    run = run_with(total(50), (100, total(10), "graceful-immediate"), (105, total(20), second), batch=batch)
    first, last = run.changes()
    assert (first["state"], last["state"], last["loss"]) == ("superseded", "finished", 0)
    drained = {"drain/stream": 105 + 49, "drain/query": 105 + 49, "graceful-drain": 105 + 20 - 1 + 49}[second]
    assert given(run, 1) == drained - 49
    assert last["stream_disorder"] == 0 or second == "drain/query"


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 7, 1000])
@pytest.mark.parametrize("second", ["drain/stream", "graceful-drain", "graceful-immediate", "delayed-drain"])
def test_what_was_held_back_leaves_where_stream_order_counts(second: str, batch: int) -> None:
    run = run_with(total(50), (100, total(2), "drain/query"), (110, total(5), second), batch=batch)
    first, last = run.changes()
    assert (first["state"], first["ended_us"], first["rows_held"]) == ("superseded", 110, 9)
    assert (last["state"], last["stream_disorder"]) == ("finished", 0)
    times = run.table().column("_time").to_pylist()
    assert times[61:] == sorted(times[61:])


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 7, 1000])
def test_a_loss_is_charged_to_the_change_that_stops(batch: int) -> None:
    run = run_with(total(50), (100, total(10), "drain/stream"), (105, total(20), "immediate"), batch=batch)
    assert [c["loss"] for c in run.changes()] == [0, 44 + 5]


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 7, 1000])
def test_a_delayed_drain_loses_what_it_never_gives(batch: int) -> None:
    """Three rows late, windows of two rows never hold the rows they would have held."""
    run = run_with(total(4), (100, total(2, 2), "delayed-drain"), batch=batch)
    (record,) = run.changes()
    assert (record["started_us"], record["loss"]) == (103, 100)
    run = run_with(total(5), (100, total(2, 2), "delayed-drain"), batch=batch)
    assert (run.changes()[0]["started_us"], run.changes()[0]["loss"]) == (104, 2)


@pytest.mark.parametrize("batch", [1, 7, 50, 1000])
def test_duplicates_do_not_depend_on_micro_batches(batch: int) -> None:
    """Windows of time answer later than those of rows, long after the change is over, from the same rows."""
    later = "SELECT SUM(v) AS total FROM s [RANGE 40 MICROSECONDS SLIDE 1 MICROSECOND]"
    run = run_with(total(20, 20), (100, later, "graceful-drain"), batch=batch)
    (record,) = run.changes()
    assert (record["state"], record["duplicates"]) == ("finished", 1)


def test_an_abort_that_would_leave_two_versions_is_refused() -> None:
    run = ms.Engine().stream("s", ROWS, time="ts").query(total(5)).start(paused=True)
    assert isinstance(run, Run)
    run.advance(100).change(total(50), "graceful-drain")
    run.advance(105).change(total(60), "graceful-immediate")
    with pytest.raises(ms.MidstreamError, match="superseded an earlier one, and versions 1 and 2 would both go on"):
        run.control("abort")
