"""The paper's running example, run: sums over 3 rows that slide by 2, changed to 2 rows that slide by 2.

The figures are lost; the stream is put together from what the text says (see tests/oracle/test_change_formal.py).
"""

import pyarrow as pa
import pytest

import midstream as ms
from midstream.app.engine import Run
from midstream.model.errors import MidstreamError

STREAM = [1, 3, 8, 3, 5, 3, 4, 7]
OLD = "SELECT SUM(v) AS total FROM s [ROWS 3 SLIDE 2]"
WIDER = "SELECT SUM(v) AS total FROM s [ROWS 4 SLIDE 2]"
NEW = "SELECT SUM(v) AS total FROM s [ROWS 2 SLIDE 2]"


def run_of(sql: str = OLD, batch: int = 1_000, skip: int = 1, more: int = 0) -> Run:
    """Return a paused run over the stream without its first values, one row a microsecond."""
    values = [*STREAM, *([0] * more)]
    table = pa.table({"ts": range(skip, len(values)), "v": values[skip:]})
    run = ms.Engine().stream("s", table, time="ts").query(sql).start(paused=True, batch=batch)
    assert isinstance(run, Run)
    return run


def given(run: Run) -> list[tuple[int, int]]:
    table = run.finish().table()
    return list(zip(table.column("_version").to_pylist(), table.column("total").to_pylist(), strict=True))


def test_figures_1_to_3_a_fresh_start_sets_where_counting_begins() -> None:
    assert given(run_of())[:2] == [(1, 14), (1, 11)]
    assert given(run_of(skip=0))[0] == (1, 12)
    assert given(run_of(skip=0).advance(1).control("fstart"))[:2] == [(1, 14), (1, 11)]


def test_figure_4_a_stop_at_once_and_a_stop_that_drains() -> None:
    assert given(run_of().advance(5).control("istop")) == [(1, 14)]
    assert given(run_of().advance(5).control("dstop")) == [(1, 14), (1, 11)]


def test_figure_5_the_latest_element_is_the_one_in_effect() -> None:
    assert given(run_of().advance(5).control("dstop").control("istop")) == [(1, 14)]
    assert given(run_of().advance(5).control("dstop").control("dstop")) == [(1, 14), (1, 11)]
    assert given(run_of().advance(5).control("dstop").control("fstart")) == [(1, 14), (1, 14)]
    assert given(run_of().advance(4).control("istop").advance(5).control("fstart")) == [(1, 14), (1, 14)]


@pytest.mark.parametrize("batch", [1, 2, 1_000])
@pytest.mark.parametrize(
    ("method", "order", "expected", "loss"),
    [
        ("immediate", None, [(1, 14), (2, 7)], 1),  # figures 6 and 9: 11 is lost
        ("delayed-drain", None, [(1, 14), (1, 11), (2, 11)], 1),  # figure 11
        ("drain", "query", [(1, 14), (1, 11), (2, 7)], 0),  # figure 12
        ("drain", "stream", [(1, 14), (1, 11), (2, 7)], 0),
        ("graceful-immediate", None, [(1, 14), (1, 11), (2, 7)], 0),
        ("graceful-drain", None, [(1, 14), (1, 11), (2, 7), (1, 14)], 0),
    ],
)
def test_figures_6_to_12(
    method: str, order: str | None, expected: list[tuple[int, int]], loss: int, batch: int
) -> None:
    run = run_of(batch=batch).advance(5)
    run.change(NEW, method, order)
    assert given(run) == expected
    assert run.changes()[0]["loss"] == loss


@pytest.mark.parametrize("batch", [1, 3, 1_000])
def test_figure_7_one_order_or_the_other(batch: int) -> None:
    run = run_of(WIDER, batch).advance(4)
    run.change(NEW, "drain", "stream")
    assert given(run) == [(1, 19), (2, 8), (1, 15), (2, 11)]
    run = run_of(WIDER, batch).advance(4)
    run.change(NEW, "drain", "query")
    assert given(run) == [(1, 19), (1, 15), (2, 8), (2, 11)]


def test_section_3_4_a_stop_during_a_change_stops_both_versions() -> None:
    run = run_of().advance(5)
    run.change(NEW, "delayed-drain")
    assert given(run.control("istop")) == [(1, 14)], "the new version must not start later"
    run = run_of().advance(5)
    run.change(NEW, "drain", "stream")
    assert given(run.advance(6).control("dstop")) == [(1, 14), (1, 11), (2, 7)]
    run = run_of().advance(5)
    run.change(NEW, "drain", "stream")
    assert given(run.advance(6).control("istop")) == [(1, 14), (1, 11)]


def test_section_3_4_a_start_during_a_change_makes_it_immediate() -> None:
    run = run_of().advance(5)
    run.change(NEW, "delayed-drain")
    assert given(run.control("fstart")) == [(1, 14), (2, 7)]
    assert run.changes()[0]["state"] == "stopped"


def test_an_abort_goes_back_where_the_old_version_still_runs() -> None:
    run = run_of(more=4).advance(5)
    run.change("SELECT SUM(v) AS total FROM s [ROWS 100 SLIDE 1]", "graceful-drain")
    without = given(run_of(more=4))
    run.advance(6).control("abort")
    assert given(run) == without
    assert run.changes()[0]["state"] == "aborted"
    run = run_of().advance(5)
    run.change(NEW, "drain", "stream")
    with pytest.raises(MidstreamError, match="cannot be aborted: version 1 drains"):
        run.control("abort")
    assert given(run) == [(1, 14), (1, 11), (2, 7)], "what is refused changes nothing"
    with pytest.raises(MidstreamError, match="no change under way"):
        run_of().advance(5).control("abort")


def test_any_number_of_versions() -> None:
    run = run_of(more=8).advance(4)
    for position in (5, 6, 7, 9):
        run.change(NEW if position % 2 else OLD, "drain", "stream")
        run.advance(position)
    assert [v for v, _ in given(run)][-1] == 5
    assert all(r["loss"] == 0 for r in run.changes())
    assert [r["state"] for r in run.changes()] == ["finished"] * 4


def test_columns_change_only_when_that_is_allowed() -> None:
    run = run_of().advance(5)
    other = "SELECT SUM(v) AS total, COUNT(*) AS rows FROM s [ROWS 2 SLIDE 2]"
    with pytest.raises(MidstreamError, match=r"'rows' \(BIGINT\) is added.*allow_schema_change"):
        run.change(other, "immediate")
    run.change(other, "immediate", allow_schema_change=True)
    out = run.finish().table()
    assert out.column("rows").to_pylist() == [None, 2]
    assert run.changes()[0]["schema_change"] == ["column 'rows' (BIGINT) is added"]
