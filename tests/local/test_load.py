"""Load: when input is faster than the query it is said early, what may give gives, and nothing else changes."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms
from midstream.app.engine import PlannedQuery, Run
from midstream.engine.control.load import BEHIND, CAUGHT_UP, FALLING, LoadWatch, Machine
from midstream.local.replay import prepare, replay
from midstream.local.scenario import read_scenario
from midstream.model.errors import MidstreamError

SECOND_US = 1_000_000
JOIN = "SELECT a.v AS v, b.v AS w FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"
HOPS = JOIN + " HOP BY 1 SECOND"
CAPACITY = 20_000
BUSY = range(40, 60)
"""The seconds in which rows come three times as fast."""


def rows_of(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.concatenate(
        [s * SECOND_US + np.sort(rng.integers(0, SECOND_US, 60 if s in BUSY else 20)) for s in range(100)]
    )
    return pa.table({"ts": times, "k": rng.integers(0, 50, len(times)), "v": np.arange(len(times))})


def query_of(sql: str) -> PlannedQuery:
    engine = ms.Engine()
    for seed, name in enumerate("ab"):
        engine.stream(name, rows_of(seed), time="ts")
    query = engine.query(sql)
    assert isinstance(query, PlannedQuery)
    return query


def started(sql: str = JOIN, **load: Any) -> Run:
    asked = {"when_behind": "5 seconds", "capacity": CAPACITY, "method": "immediate"} | load
    return query_of(sql).start(batch="1 second", load=asked)


def test_a_machine_is_behind_by_what_it_has_not_done() -> None:
    machine = Machine(100.0)
    assert machine.on_batch(0, SECOND_US, 50, 0) == (0.0, 0.5)
    assert machine.on_batch(SECOND_US, 2 * SECOND_US, 300, 0) == (2 * SECOND_US, 3.0)
    assert machine.on_batch(2 * SECOND_US, 3 * SECOND_US, 0, 2) == (1.5 * SECOND_US, 0.5)
    assert machine.on_batch(9 * SECOND_US, 10 * SECOND_US, 0, 0) == (0.0, 0.0)


def test_it_is_said_before_it_is_too_late_and_given_once() -> None:
    watch, said = LoadWatch(10 * SECOND_US), []
    lags = [0, 0, 1, 2, 4, 6, 8, 10, 12, 9, 5, 2, 0, 0, 0]
    for second, lag in enumerate(lags):
        busy, rate = (2.0, 100.0) if second < 9 else (0.2, 20.0)
        news = watch.on_batch(second * SECOND_US, lag * SECOND_US, rate, busy)
        if news is not None:
            said.append((second, news.what, news.lighter))
    assert [s[1:] for s in said] == [(FALLING, None), (BEHIND, True), (CAUGHT_UP, False)]
    assert said[0][0] < 5
    assert lags[said[1][0]] == 10
    assert max(lags[said[2][0] - 1], lags[said[2][0]]) <= 1


def test_the_full_query_waits_until_there_is_time_for_it() -> None:
    watch = LoadWatch(SECOND_US)
    watch.on_batch(0, 2 * SECOND_US, 100.0, 2.0)
    assert watch.lighter
    for second in range(1, 10):  # no lag, but as many rows as before
        assert watch.on_batch(second * SECOND_US, 0, 100.0, 0.5) is None
    news = watch.on_batch(10 * SECOND_US, 0, 39.0, 0.2)
    assert news is not None
    assert news.lighter is False


@pytest.mark.parametrize(("sql", "load"), [(JOIN, {"window": "1 second"}), (JOIN, {"query": JOIN + " AND a.k < 5"}),
                                           (HOPS, {"hop": "10 seconds", "capacity": 60_000})])  # fmt: skip
def test_what_gives_gives_in_the_busy_time_alone(sql: str, load: dict[str, Any]) -> None:
    run = started(sql, **load)
    what = [event["what"] for event in run.report.load]
    assert what.index(FALLING) < what.index(BEHIND)
    assert what[-2:] == [CAUGHT_UP, "to the full query"]
    first, last = run.report.load[what.index(BEHIND)], run.report.load[-1]
    assert BUSY[0] * SECOND_US <= first["when"] <= BUSY[-1] * SECOND_US < last["when"]
    assert first["lag_s"] >= 5
    decisions = run.decisions()
    assert [d["to"] for d in decisions] == [decisions[0]["to"], "the full query"]
    assert [c["state"] for c in run.changes()] == ["finished", "finished"]
    assert run.table()["_version"].unique().to_pylist() == [1, 2, 3]
    assert max(b.lag_us for b in run.report.batches) < max(b.lag_us for b in full(sql, **load).batches)
    # A user who had asked for the same changes at the same positions has the same rows.
    assert run.table() == by_hand(sql, run).table()


def full(sql: str, **load: Any) -> Any:
    """Run the query with something that is never given."""
    return started(sql, **(load | {"when_behind": "10 days"})).report


def by_hand(sql: str, run: Run) -> Run:
    other = query_of(sql).start(batch="1 second", paused=True)
    for change in run.changes():
        other.advance(change["position_us"])
        other.change(change["sql"], method="immediate")
    return other.finish()


def test_a_run_that_is_resumed_gives_as_one_that_is_not(tmp_path: Path) -> None:
    asked = {"when_behind": "5 seconds", "capacity": CAPACITY, "method": "immediate", "window": "1 second"}
    whole = started(window="1 second")
    for at in itertools.count(41, 7):
        run = query_of(JOIN).start(
            tmp_path / "out", batch="1 second", load=asked, checkpoint=tmp_path / "kept", paused=True
        )
        if run.ended or at > 120:
            break
        run.advance(at * SECOND_US)
        run.finish() if at > 90 else run.stop()
    assert run.report.load == whole.report.load
    assert run.decisions() == whole.decisions()
    assert [b.lag_us for b in run.report.batches] == [b.lag_us for b in whole.report.batches]


def test_a_query_that_somebody_has_changed_is_left_alone() -> None:
    run = query_of(JOIN).start(
        batch="1 second", load={"when_behind": "5 seconds", "capacity": CAPACITY, "window": "1 second"}, paused=True
    )
    run.advance(20 * SECOND_US)
    run.change(JOIN.replace("10", "9"), method="immediate")
    run.finish()
    assert len(run.changes()) == 1
    (decision,) = run.decisions()
    assert decision["state"] == "refused"
    assert "somebody has changed to" in decision["why"]


def scenario(tmp_path: Path, load: str, **run: str) -> Path:
    for seed, name in enumerate("ab"):
        pq.write_table(rows_of(seed), tmp_path / f"{name}.parquet")
    streams = "".join(f'[streams.{n}]\npath = "{n}.parquet"\ntime = "ts"\n' for n in "ab")
    more = "".join(f'{k} = "{v}"\n' for k, v in run.items())
    text = (
        f'sql = "{JOIN}"\nversions = ["{JOIN} AND a.k < 5"]\n{streams}[run]\nbatch = "1 second"\n{more}[load]\n{load}'
    )
    (tmp_path / "s.toml").write_text(text)
    return tmp_path / "s.toml"


def test_a_scenario_says_what_gives(tmp_path: Path) -> None:
    file = scenario(tmp_path, 'when_behind = "5 seconds"\nversion = 2\ncapacity = 20000\nmethod = "immediate"\n')
    report = tmp_path / "report.json"
    replay(prepare(read_scenario(file)), tmp_path / "out.parquet", report)
    found = json.loads(report.read_text())
    assert [d["to"] for d in found["decisions"]] == ["version 2", "the full query"]
    assert [e["what"] for e in found["load"]][:2] == [FALLING, BEHIND]
    assert max(b["lag_us"] for b in found["batches"]) >= 5 * SECOND_US


@pytest.mark.parametrize(("load", "said"), [
    ("version = 2\n", "needs when_behind"),
    ('when_behind = "5 seconds"\n', "what gives by one of query, version, hop, window, not by 0"),
    ('when_behind = "5 seconds"\nversion = 2\nhop = "1 hour"\n', "not by 2"),
    ('when_behind = "5 seconds"\nversion = 2\n', "needs capacity"),
    ('when_behind = "0 seconds"\nversion = 2\n', "longer than nothing"),
    ('when_behind = "5 seconds"\nversion = 3\n', "no registered query 3"),
    ('when_behind = "5 seconds"\nversion = 1\n', "is the query itself"),
    ('when_behind = "5 seconds"\nwindow = "1 hour"\n', "no window of the query is longer than 1 HOUR"),
    ('when_behind = "5 seconds"\nhop = "1 hour"\n', "no hop of time"),
    ('when_behind = "5 seconds"\nquery = "SELECT a.k FROM a [RANGE 1 SECOND]"\ncapacity = 5\n', "the output changes"),
    ('when_behind = "5 seconds"\nversion = 2\ncapacity = 0\n', "a number above 0"),
    ('when_behind = "5 seconds"\nversion = 2\nmethods = "drain"\n', "no 'methods'"),
    ('when_behind = "5 seconds"\nversion = 2\nmethod = "slowly"\n', "method is 'slowly'"),
])  # fmt: skip
def test_bad_loads_are_one_sentence(load: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(MidstreamError, match=r"s\.toml") as error:
        prepare(read_scenario(scenario(tmp_path, load)))
    assert said in str(error.value)
