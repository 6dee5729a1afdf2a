"""Load of a live query: the lag by its clock, said early, and what may give gives; every change is an event."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine.live_host import HostedRun, batches_of, two_streams

from midstream.app.status import behind
from midstream.engine.control.load import BEHIND, CAUGHT_UP, FALLING
from midstream.engine.world import World
from midstream.local.disk import THIS_MACHINE
from midstream.model.errors import MidstreamError

SQL = "SELECT a.v, b.v AS w FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k"
LOAD = {"when_behind": "10 seconds", "window": "5 seconds", "method": "immediate"}
SLOW = range(5, 20)
"""The micro-batches of a second each that take three seconds."""


class Slow:
    """A clock that goes on by what a micro-batch takes, when it is told to."""

    def __init__(self) -> None:
        self.at_s = 1_000_000.0

    def now_ns(self) -> int:
        return round(self.at_s * 1e9)

    def elapsed_s(self) -> float:
        return self.at_s

    def pause(self, seconds: float) -> None:
        self.at_s += seconds


def started(tmp_path: Path, clock: Slow, load: dict[str, Any] | None, stores: dict[int, Any]) -> HostedRun:
    world: World = replace(THIS_MACHINE, clock=clock)
    return HostedRun(SQL, two_streams(), tmp_path, stores, world=world, load=load)


def run(run_: HostedRun, clock: Slow, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Run micro-batches; the full query is slow for some of them, the lighter one never."""
    for number, rows in enumerate(batches_of(3, first, end), first):
        lighter = run_.status()["load"]["lighter"]
        # A batch takes its time before it is noted.
        clock.at_s += 3.0 if number in SLOW and not lighter else 0.5 if number in SLOW or lighter else 1.0
        assert run_.tick(rows)
        yield run_.status()["load"]


def said(run_: HostedRun) -> list[str]:
    return [e["what"] for e in run_.events() if e["event"] == "load"]


def test_a_live_query_gives_what_may_give_and_comes_back(tmp_path: Path) -> None:
    clock = Slow()
    live = started(tmp_path, clock, LOAD, {})
    found = list(run(live, clock, 0, 60))
    assert said(live) == [FALLING, BEHIND, "to windows of 5 seconds", CAUGHT_UP, "to the full query"]
    asked = [e for e in live.events() if e["event"] == "load" and e["what"].startswith("to ")]
    changed = [e["id"] for e in live.events() if e["event"] == "change asked"]
    assert [e["change"] for e in asked] == changed
    assert [c["state"] for c in live.changes()] == ["finished", "finished"]
    assert found[4]["lag_s"] < 1.0
    assert max(f["lag_s"] for f in found) >= 10.0
    assert found[7]["until_s"] > 0
    assert sorted(found[-1]["behind_the_clock_s"]) == ["a", "b"]
    assert found[-1]["when_behind_s"] == 10.0
    live.end()


def test_nothing_gives_that_nobody_has_named(tmp_path: Path) -> None:
    clock = Slow()
    live = started(tmp_path, clock, None, {})
    found = list(run(live, clock, 0, 30))
    assert said(live) == []
    assert not live.changes()
    assert max(f["lag_s"] for f in found) > 20
    assert "further than at best" in behind(found[18])
    live.end()


def test_a_run_that_begins_with_the_lighter_query_goes_back(tmp_path: Path) -> None:
    clock, stores = Slow(), {}
    live = started(tmp_path, clock, LOAD, stores)
    list(run(live, clock, 0, 14))
    assert said(live)[-1] == "to windows of 5 seconds"
    live.end()
    again = started(tmp_path, clock, LOAD, stores)
    assert again.status()["load"]["lighter"]
    list(run(again, clock, 14, 40))
    assert "to the full query" in said(again)
    assert 3 in [c["to_version"] for c in again.changes()]
    again.end()


def test_a_query_that_somebody_has_changed_is_left_alone(tmp_path: Path) -> None:
    clock = Slow()
    live = started(tmp_path, clock, LOAD, {})
    list(run(live, clock, 0, 3))
    live.change(SQL.replace("1 MINUTE", "50 SECONDS"), method="immediate")
    list(run(live, clock, 3, 30))
    assert said(live)[:2] == [FALLING, BEHIND]
    assert len(live.changes()) == 1
    assert live.status()["load"]["gives"] is None
    live.end()


def test_a_live_query_has_no_capacity(tmp_path: Path) -> None:
    with pytest.raises(MidstreamError, match="lag of its own"):
        started(tmp_path, Slow(), LOAD | {"capacity": 5}, {})
