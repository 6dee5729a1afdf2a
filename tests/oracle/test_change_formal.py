"""The oracle of query change against the paper: its running example, its sensitivity study, its table of guarantees."""

import functools
from collections.abc import Sequence

import pytest

from oracle.change_counts import GUARANTEES, Counts, guaranteed, measure
from oracle.change_run import Change, Given, Oracle
from oracle.changes import (
    METHODS,
    Aggregates,
    Condition,
    Filter,
    InstanceWindow,
    Join,
    PredicateSlide,
    Query,
    RangeSlide,
    Row,
    RowsSlide,
    Source,
    Value,
)

EXAMPLE = [1, 3, 8, 3, 5, 3, 4, 7]
"""The stream of figures 1 to 12, put together from what the text says of them.

From 3 on, windows of 3 rows that slide by 2 give 14 and 11, from 1 on the first gives 12; a stop lies before the last
three values 3, 4, 7, of which the 3 closes the window that drains.
"""


def rows_of(values: Sequence[Value], times: list[int] | None = None, name: str = "v", stream: int = 0) -> list[Row]:
    return [Row(t, stream, n, {name: values[n]}) for n, t in enumerate(times or range(len(values)))]


def sums(window: InstanceWindow, *where: Condition) -> Aggregates:
    return Aggregates("s", window, (("x", "SUM", "v"),), where)


def values(given: list[Given]) -> list[tuple[Value, ...]]:
    return [(g.version, *g.result.values.values()) for g in given]


def run(rows: list[Row], old: Query, *changes: Change) -> list[tuple[Value, ...]]:
    return values(Oracle({"s": rows}, old, changes).given_out())


# The running example -------------------------------------------------------------------------------------------------

Q_OLD, Q_NEW = sums(RowsSlide(3, 2)), sums(RowsSlide(2, 2))
FROM_3 = rows_of(EXAMPLE)[1:]
BEHIND_5 = 5


def test_the_mapping_depends_on_where_it_starts() -> None:
    assert [v for _, v in run(FROM_3, Q_OLD)] == [14, 11, 14]
    assert run(rows_of(EXAMPLE), Q_OLD)[0] == (1, 12)
    fresh = Oracle({"s": rows_of(EXAMPLE)}, Q_OLD, []).fresh_start(Q_OLD, 1)
    assert [y.values["x"] for y in fresh] == [14, 11, 14]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("immediate", [(1, 14), (2, 7)]),
        ("delayed-drain", [(1, 14), (1, 11), (2, 11)]),
        ("drain/query", [(1, 14), (1, 11), (2, 7)]),
        ("drain/stream", [(1, 14), (1, 11), (2, 7)]),
        ("graceful-immediate", [(1, 14), (1, 11), (2, 7)]),
        ("graceful-drain", [(1, 14), (1, 11), (2, 7), (1, 14)]),
    ],
)
def test_the_running_example(method: str, expected: list[tuple[Value, ...]]) -> None:
    change = Change(BEHIND_5, Q_NEW, method)
    assert run(FROM_3, Q_OLD, change) == expected
    oracle = Oracle({"s": FROM_3}, Q_OLD, [change])
    # The immediate change loses 11; the new version of the delayed one starts after the 3 and loses 3 + 4.
    assert measure(oracle, oracle.given_out()).loss == (method in ("immediate", "delayed-drain"))


def test_query_order_and_stream_order() -> None:
    """Figure 7, with windows of 4 rows in the old query: it closes its last window after the first of the new one."""
    old = sums(RowsSlide(4, 2))
    at = 4  # after the second 3
    assert run(FROM_3, old, Change(at, Q_NEW, "drain/stream")) == [(1, 19), (2, 8), (1, 15), (2, 11)]
    assert run(FROM_3, old, Change(at, Q_NEW, "drain/query")) == [(1, 19), (1, 15), (2, 8), (2, 11)]


# The sensitivity study -----------------------------------------------------------------------------------------------

STUDY = rows_of([n % 7 for n in range(2000)])
SIZES = [10, 50, *(pytest.param(size, marks=pytest.mark.slow) for size in (20, 30, 40, 49, 51, 60, 70, 80, 90, 100))]


@functools.cache
def studied(method: str, size: int) -> Counts:
    oracle = Oracle({"s": STUDY}, sums(RowsSlide(50, 1)), [Change(1000, sums(RowsSlide(size, 1)), method)])
    return measure(oracle, oracle.given_out())


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_the_sensitivity_study(size: int) -> None:
    """Figure 15: 2,000 rows, a change after 1,000, windows of 50 rows before and `size` rows after it."""
    got = {method: studied(method, size) for method in METHODS}
    smaller = max(0, 50 - size)
    assert {m: g.loss for m, g in got.items()} == {
        "immediate": 49,
        "delayed-drain": 49,
        "drain/query": 0,
        "drain/stream": 0,
        "graceful-immediate": smaller,
        "graceful-drain": 0,
    }
    # 39 at 10: the first window of the new query closes with row 1009, the last one of the old query with row 1048.
    disordered = max(0, smaller - 1)
    assert {m: g.stream_disorder for m, g in got.items() if g.stream_disorder} == (
        {"drain/query": disordered} if disordered else {}
    )
    found = {m: g.query_disorder for m, g in got.items() if g.query_disorder}
    assert found == {"graceful-drain": 48} | ({"drain/stream": disordered} if disordered else {})
    assert {m: g.duplicates for m, g in got.items() if g.duplicates} == ({"graceful-drain": 49} if size == 50 else {})
    # Behind the change, while it waits, the old query gives windows of new rows only.
    waited = max(0, size - 50)
    assert {m: g.extra for m, g in got.items() if g.extra} == {
        m: n for m, n in (("graceful-immediate", waited), ("graceful-drain", size - 1)) if n
    }
    assert not any(getattr(got[method], name) for method in METHODS for name in GUARANTEES[method])


def test_the_numbers_of_the_paper() -> None:
    assert studied("drain/query", 10).stream_disorder == 39
    assert studied("drain/stream", 10).query_disorder == 39
    assert studied("immediate", 10).loss == studied("delayed-drain", 10).loss == 49


def test_tumbling_windows_change_without_error_at_their_ends() -> None:
    """Section 6.2, but for graceful-drain: while it waits, the old query has opened a window that it drains."""
    for method in METHODS[:-1]:
        oracle = Oracle({"s": STUDY[:100]}, sums(RowsSlide(10, 10)), [Change(50, sums(RowsSlide(5, 5)), method)])
        got = measure(oracle, oracle.given_out())
        assert (got.loss, got.query_disorder, got.stream_disorder, got.duplicates) == (0, 0, 0, 0)


# Each kind of query --------------------------------------------------------------------------------------------------


def test_time_instances_hold_the_rows_from_the_start_on() -> None:
    rows = rows_of([1, 2, 3, 4, 5, 6], [1, 8, 12, 15, 23, 41])
    query = sums(RangeSlide(10, 10))
    # T = 50 is not reached: no row comes at or after it. No row lies in [30, 40).
    assert [v for _, v in run(rows, query)] == [3, 7, 5]
    assert run(rows, query, Change(13, query, "drain/stream")) == [(1, 3), (1, 7), (2, 4), (2, 5)]
    assert run(rows, query, Change(13, query, "immediate")) == [(1, 3), (2, 4), (2, 5)]
    # Its end is the position: all its rows are old, and it has closed.
    assert run(rows, query, Change(20, query, "immediate")) == [(1, 3), (1, 7), (2, 5)]
    # The last instance with an old row ends at 20, where the new version starts.
    assert run(rows, query, Change(13, query, "delayed-drain")) == [(1, 3), (1, 7), (2, 5)]
    # The first result of the new version is due at 20, and so is one of the old version that has an old row.
    assert run(rows, query, Change(13, query, "graceful-drain")) == [(1, 3), (1, 7), (2, 4), (2, 5)]
    assert run(rows, query, Change(13, query, "graceful-immediate")) == [(1, 3), (2, 4), (2, 5)]
    # What is due at the position has left when the new version answers there.
    every = sums(RowsSlide(1, 1))
    assert run(rows_of([1, 2, 3], [1, 8, 10]), query, Change(10, every, "graceful-immediate")) == [(1, 3), (2, 3)]


def test_a_result_depends_on_the_rows_that_pass() -> None:
    rows = rows_of([5, 0, 0, 6, 0, 0])
    query = sums(RowsSlide(3, 3), Condition("v", ">", 1))
    first, second = Oracle({"s": rows}, query, []).fresh_start(query, 0)
    assert (first.time, first.trigger, [r.offset for r in first.depends]) == (0, (2, 0, 2), [0])
    assert (second.time, second.trigger, len(second.depends)) == (3, (5, 0, 5), 1)
    # Its one row is old, but it closes after the position.
    assert run(rows, query, Change(1, query, "immediate")) == [(2, 6)]
    assert run(rows, query, Change(1, query, "drain/stream")) == [(1, 5), (2, 6)]
    # The rows that pass are new, although the instance has opened before.
    assert run(rows, query, Change(4, query, "drain/stream")) == [(1, 5), (1, 6)]


def test_nothing_that_passes_depends_on_the_whole_instance() -> None:
    query = sums(RowsSlide(2, 2), Condition("v", ">", 9))
    (result,) = Oracle({"s": rows_of([1, 2])}, query, []).fresh_start(query, 0)
    assert (result.values, result.time, len(result.depends)) == ({"x": None}, 1, 2)
    grouped = Aggregates("s", RowsSlide(2, 2), (("k", "", "v"), ("n", "COUNT", "*")), query.where, "v")
    assert run(rows_of([1, 2]), grouped) == []


def test_groups_stop_one_by_one() -> None:
    """A group whose rows are all new is no part of a drain, though its instance has old rows."""
    rows = rows_of([7, 8, 7, 8, 9, 9])
    query = Aggregates("s", RowsSlide(3, 3), (("k", "", "v"), ("n", "COUNT", "*")), group_by="v")
    assert run(rows, query) == [(1, 8, 1), (1, 7, 2), (1, 8, 1), (1, 9, 2)]
    assert run(rows, query, Change(4, query, "drain/query")) == [(1, 8, 1), (1, 7, 2), (1, 8, 1)]


def test_windows_of_each_key() -> None:
    rows = [Row(t, 0, t, {"k": k, "v": t}) for t, k in enumerate([0, 1, 1, 0, None, None, 0, 1])]
    query = sums(RowsSlide(2, 1, "k"))
    assert [v for _, v in run(rows, query)] == [3, 3, 9, 9, 9]
    # Key 1 drains last, with the row of 7.
    oracle = Oracle({"s": rows}, query, [Change(3, query, "delayed-drain")])
    assert oracle.versions[1].start == 8


def test_predicate_windows() -> None:
    rows = rows_of([1, 5, 2, 6, 0, 9, 1])
    query = sums(PredicateSlide(Condition("v", ">", 4), Condition("v", "<", 2)))
    assert [v for _, v in run(rows, query)] == [5 + 2 + 6 + 0, 9 + 1]
    assert run(rows, query, Change(2, query, "drain/stream")) == [(1, 13), (2, 6), (2, 10)]
    sooner = sums(PredicateSlide(Condition("v", ">", 1), Condition("v", ">", 5)))
    assert run(rows, query, Change(2, sooner, "drain/stream")) == [(2, 8), (1, 13), (2, 9)]
    assert run(rows, query, Change(2, sooner, "drain/query")) == [(1, 13), (2, 8), (2, 9)]
    assert run(rows, query, Change(2, query, "delayed-drain")) == [(1, 13), (2, 10)]


def test_nested_windows_depend_on_the_rows_below() -> None:
    inner = Aggregates("s", RowsSlide(2, 2), (("x", "SUM", "v"),))
    query = Aggregates(inner, RowsSlide(2, 1), (("y", "SUM", "x"),))
    rows = rows_of([1, 2, 3, 4, 5, 6, 7, 8])
    assert [v for _, v in run(rows, query)] == [10, 18, 26]
    # An inner instance of rows 2 and 3 is open at 3; it is in the outer ones that close with rows 3 and 5.
    assert run(rows, query, Change(3, query, "drain/stream")) == [(1, 10), (1, 18), (2, 22)]
    oracle = Oracle({"s": rows}, query, [Change(3, query, "delayed-drain")])
    assert oracle.versions[1].start == 6


def test_a_filter_drains_at_once() -> None:
    query = Filter("s", "[RANGE 5 MICROSECONDS]", (Condition("v", ">", 2),), (("x", "v"),))
    for method in METHODS:
        got = run(rows_of([1, 2, 3, 4, 5]), query, Change(3, query, method))
        assert got == [(1, 3), (2, 4), (2, 5)], method


def join_rows() -> dict[str, list[Row]]:
    left = [Row(t, 0, n, {"k": 1, "v": t}) for n, t in enumerate([0, 4, 8, 9])]
    right = [Row(t, 1, n, {"k": 1, "v": t}) for n, t in enumerate([2, 4, 7, 12])]
    return {"s": left, "r": right}


def join(width_us: int | None, count: int = 0) -> Join:
    sources = (Source("a", "s", width_us, count), Source("b", "r", width_us, count))
    return Join(sources, (("a.k", "=", "b.k"),), (), (("x", "a.v"), ("y", "b.v")))


def test_joins() -> None:
    def pairs(query: Join, *changes: Change) -> list[tuple[Value, ...]]:
        return values(Oracle(join_rows(), query, changes).given_out())

    w3 = [(1, 0, 2), (1, 4, 2), (1, 4, 4), (1, 4, 7), (1, 8, 7), (1, 9, 7), (1, 9, 12)]
    assert pairs(join(3)) == w3
    assert pairs(join(None, 1)) == [(1, 0, 2), (1, 4, 2), (1, 4, 4), (1, 4, 7), (1, 8, 7), (1, 9, 7), (1, 9, 12)]
    kept = [(1, 0, 2), (1, 4, 2), (1, 4, 4)]
    new = [(2, 8, 7), (2, 9, 7), (2, 9, 12)]
    assert pairs(join(3), Change(5, join(3), "immediate")) == kept + new
    assert pairs(join(3), Change(5, join(3), "drain/stream")) == [*kept, (1, 4, 7), *new]
    # The row of 4 meets rows up to 7: the new version starts at 8 and does not see the row of 7.
    assert pairs(join(3), Change(5, join(3), "delayed-drain")) == [*kept, (1, 4, 7), (2, 9, 12)]


def test_ties_leave_in_the_order_of_versions() -> None:
    rows = rows_of([1, 2, 3, 4], [0, 0, 5, 5])
    assert run(rows, sums(RowsSlide(1, 1)), Change(5, sums(RowsSlide(1, 1)), "drain/stream")) == [
        (1, 1), (1, 2), (2, 3), (2, 4)]  # fmt: skip
    assert run(rows, sums(RowsSlide(3, 2)), Change(5, sums(RowsSlide(1, 1)), "drain/stream")) == [
        (1, 6), (2, 3), (2, 4)]  # fmt: skip


# Several changes -----------------------------------------------------------------------------------------------------


def test_a_change_that_meets_another() -> None:
    rows = rows_of([1] * 12)
    q4, q3, q2 = sums(RowsSlide(4, 1)), sums(RowsSlide(3, 1)), sums(RowsSlide(2, 1))

    def tally(*changes: Change) -> dict[int, int]:
        found = [g.version for g in Oracle({"s": rows}, q4, changes).given_out()]
        return {v: found.count(v) for v in sorted(set(found))}

    # Rows 4, 5, 6 drain version 1; row 6 answers version 2 first; from row 6 on version 3 runs.
    assert tally(Change(4, q3, "drain/stream"), Change(6, q2, "immediate")) == {1: 3, 3: 5}
    assert tally(Change(4, q3, "drain/stream"), Change(6, q2, "drain/stream")) == {1: 4, 2: 2, 3: 5}
    assert tally(Change(4, q3, "drain/query"), Change(6, q2, "drain/query")) == {1: 4, 2: 2, 3: 5}
    # Version 2 would have started at 7.
    assert tally(Change(4, q3, "delayed-drain"), Change(6, q2, "drain/stream")) == {1: 4, 3: 5}
    assert tally(Change(4, q3, "delayed-drain"), Change(6, q2, "immediate")) == {1: 3, 3: 5}
    assert tally(Change(4, q3, "delayed-drain"), Change(8, q2, "immediate")) == {1: 4, 3: 3}
    # Version 1 goes on until version 2 answers with row 6; asked to stop before, version 2 never does.
    assert tally(Change(4, q3, "graceful-immediate"), Change(8, q2, "immediate")) == {1: 3, 2: 2, 3: 3}
    assert tally(Change(4, q3, "graceful-immediate"), Change(6, q2, "immediate")) == {1: 3, 3: 5}
    # Version 2 would answer with row 6, but the word of the second change counts: version 3 answers with row 7.
    assert tally(Change(4, q3, "graceful-immediate"), Change(6, q2, "graceful-immediate")) == {1: 4, 2: 1, 3: 5}
    # A stop that waits is void: versions 1 and 2 drain from row 6 on, rows 6 to 8 and 6 to 7.
    assert tally(Change(4, q3, "graceful-immediate"), Change(6, q2, "drain/stream")) == {1: 6, 2: 2, 3: 5}


def test_when_a_change_is_over() -> None:
    rows = {"s": rows_of([1] * 12)}
    old, new = sums(RowsSlide(4, 1)), sums(RowsSlide(2, 1))
    ends = {m: Oracle(rows, old, [Change(4, new, m)]).ends[0] for m in METHODS}
    assert ends == {
        "immediate": 4, "delayed-drain": 7, "drain/query": 7, "drain/stream": 7, "graceful-immediate": 5,
        "graceful-drain": 8,
    }  # fmt: skip


def test_results_that_leave_late_can_repeat_rows() -> None:
    """The guarantee of graceful-immediate needs results that leave with their latest row."""
    rows = rows_of([1] * 7, [3, 4, 5, 13, 14, 15, 25])
    oracle = Oracle({"s": rows}, sums(RowsSlide(3, 3)), [Change(3, sums(RangeSlide(10, 10)), "graceful-immediate")])
    given = oracle.given_out()
    assert values(given) == [(1, 3), (2, 3), (2, 3)]
    assert measure(oracle, given).duplicates == 1
    assert "duplicates" not in guaranteed("graceful-immediate", given)
