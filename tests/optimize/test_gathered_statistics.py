"""Statistics of recorded streams: what is expected of windows, filters, keys and conditions."""

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.planning.gathering import FEWEST
from midstream.local.statistics import gather
from midstream.model.statistics import Statistics

SECOND = 1_000_000
ROWS = 6_000
"""Of each stream, a hundred a second."""


def stream(**columns: object) -> pa.Table:
    return pa.table({"ts": np.arange(ROWS) * (SECOND // 100), **columns})


def gathered(sql: str, **streams: pa.Table) -> Statistics:
    engine = ms.Engine()
    for name, rows in streams.items():
        engine.stream(name, rows, time="ts")
    query = engine.query(sql)
    found = gather(query.plan.query, query.streams)
    assert found is not None
    return found


def test_windows_hold_what_comes_while_they_are_open() -> None:
    rows = stream(k=np.arange(ROWS) % 7)
    windows = {"a": "RANGE 3 SECONDS", "b": "ROWS 50", "c": "ROWS 4 PARTITION BY k", "d": "RANGE 1 DAYS"}
    sources = ", ".join(f"s [{window}] {alias}" for alias, window in windows.items())
    found = gathered(f"SELECT a.k FROM {sources} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k", s=rows)
    assert found.window_rows == pytest.approx({"a": 300, "b": 50, "c": 28, "d": ROWS}, rel=0.01)
    assert found.rows_per_s == pytest.approx(dict.fromkeys("abcd", 100.0), rel=0.01)
    assert found.rows_seen == ROWS


def test_filters_come_before_values_and_nulls_are_none() -> None:
    numbers = np.arange(ROWS)
    keys = pa.array([None if n % 4 == 0 else n % 10 for n in numbers.tolist()])
    found = gathered(
        "SELECT a.k FROM a [RANGE 60 SECONDS], b [RANGE 60 SECONDS] WHERE a.k = b.k AND a.v < 3",
        a=stream(k=keys, v=numbers % 6),
        b=stream(k=np.where(numbers % 2 == 0, 1, numbers), v=numbers),
    )
    assert found.passing == {"a": 0.5, "b": 1.0}
    a, b = found.values[0, "a"], found.values[0, "b"]
    assert (a.distinct, sum(a.common.values()), a.others) == (10, pytest.approx(2 / 3), 0)
    assert b.common[1] == pytest.approx(0.5, abs=0.01)
    assert b.others > 0.4


def test_values_are_those_of_the_last_window_not_of_all_rows() -> None:
    """Keys that go on with time: a window holds few of them."""
    found = gathered(
        "SELECT a.k FROM a [RANGE 30 SECONDS], b [ROWS 10] WHERE a.k = b.k",
        a=stream(k=np.arange(ROWS) // 10),
        b=stream(k=np.arange(ROWS)),
    )
    assert found.values[0, "a"].distinct == pytest.approx(300, abs=2)
    assert found.values[0, "b"].distinct == FEWEST


def test_conditions_are_tried_on_some_rows() -> None:
    numbers = np.arange(ROWS)
    found = gathered(
        "SELECT a.v FROM a [RANGE 60 SECONDS], b [RANGE 60 SECONDS] WHERE a.v < b.v AND abs(a.v - b.v) > 1000",
        a=stream(v=numbers % 500),
        b=stream(v=numbers % 1000),
    )
    far = next(part for text, part in found.selectivity.items() if text != "a.v < b.v")
    assert found.selectivity["a.v < b.v"] == pytest.approx(0.75, abs=0.05)
    assert 0 < far < 0.001


def test_streams_are_seen_up_to_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose first rows are of 20 seconds says nothing of later; then nor may the others."""
    monkeypatch.setattr("midstream.local.statistics.FIRST_ROWS", 1)
    monkeypatch.setattr("midstream.local.sources.CHUNK_ROWS", 2_000)
    slow = pa.table({"ts": np.arange(ROWS) * SECOND, "k": np.arange(ROWS)})
    found = gathered("SELECT a.k FROM a [ROWS 5], b [ROWS 5] WHERE a.k = b.k", a=stream(k=np.arange(ROWS)), b=slow)
    assert found.rows_per_s == pytest.approx({"a": 100.0, "b": 1.0}, rel=0.1)
    assert found.values[0, "b"].distinct == pytest.approx(20, abs=1)


def test_empty_streams_are_no_mistake() -> None:
    found = gathered(
        "SELECT a.k FROM a [ROWS 5], b [RANGE 5 SECONDS] WHERE a.k = b.k AND a.k < b.k + 1",
        a=stream(k=np.arange(ROWS)).slice(0, 0),
        b=stream(k=np.arange(ROWS)),
    )
    assert found.rows_seen == 0
    assert found.window_rows["a"] == 0
