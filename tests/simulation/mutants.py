"""Mutants: mends that are taken back, one at a time, to see that the simulation finds what they mend.

Each is the source as it was before, as far as it matters here.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from midstream.engine.control.controls import DRAIN, STOP
from midstream.engine.control.runs import Runs
from midstream.live.control_log import ControlLog, number_of
from midstream.live.query import LiveQuery
from midstream.live.run import LiveRun
from midstream.live.run_log import RunLog

Mutant = Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def retired_before_commit() -> Iterator[None]:
    """A version is retired in the micro-batch that ends it: run again, that one has no rows of it."""
    end = LiveQuery._end

    def _end(self: LiveQuery, *given: Any) -> Any:
        news = end(self, *given)
        for version in set(self._merger.over()) - self._retired:
            self.versions.files.retire(version)
            self._retired.add(version)
        return news

    with mock.patch.object(LiveQuery, "_end", _end):
        yield


@contextlib.contextmanager
def stops_for_any_run() -> Iterator[None]:
    """A stop or drain that a kill left unread acts on the next run."""
    note = LiveRun._note_controls

    def _note_controls(self: LiveRun, summary: Any, *given: Any) -> None:
        controls = [{k: v for k, v in c.items() if k != "run"} for c in summary.controls]
        note(self, replace(summary, controls=controls), *given)

    with (
        mock.patch.object(Runs, "meant", return_value=True),
        mock.patch.object(LiveRun, "_note_controls", _note_controls),
    ):
        yield


@contextlib.contextmanager
def paths_without_scheme() -> Iterator[None]:
    """The host is given paths, and looks for them on its default file system."""

    def places(self: LiveRun) -> tuple[str, str]:
        return str(self._checkpoint.controls.folder), str(self._checkpoint.spark)

    with mock.patch.object(LiveRun, "places", places):
        yield


@contextlib.contextmanager
def stops_by_the_clock() -> Iterator[None]:
    """Ids are what the clock says, and a stop counts if it was sent after the run began."""
    begin, note = LiveRun._begin, LiveRun._note_controls
    started: dict[int, int] = {}

    def new_id(self: ControlLog, once: str | None = None) -> str:
        return f"{self._world.clock.now_ns():020d}-{once or self._world.names.new()[:8]}"

    def _begin(self: LiveRun, planned: Callable[[], int]) -> None:
        started[id(self)] = self._world.clock.now_ns()
        begin(self, planned)

    def _note_controls(self: LiveRun, summary: Any, *given: Any) -> None:
        early = [c["do"] in (STOP, DRAIN) and number_of(c["id"]) < started[id(self)] for c in summary.controls]
        controls = [{**c, "run": -1} if e else c for c, e in zip(summary.controls, early, strict=True)]
        note(self, replace(summary, controls=controls), *given)

    with (
        mock.patch.object(ControlLog, "new_id", new_id),
        mock.patch.object(LiveRun, "_begin", _begin),
        mock.patch.object(LiveRun, "_note_controls", _note_controls),
    ):
        yield


@contextlib.contextmanager
def asked_before_begun() -> Iterator[None]:
    """A run asks what was planned before others see that it has begun: meanwhile they plan and run micro-batches."""
    begin = RunLog.begin

    def _begin(self: RunLog, planned: Callable[[], int]) -> Runs:
        last = planned()
        return begin(self, lambda: last)

    with mock.patch.object(RunLog, "begin", _begin):
        yield


MUTANTS: dict[str, Mutant] = {
    "a version is retired before the commit": retired_before_commit,
    "a stop acts on the next run": stops_for_any_run,
    "paths have no scheme": paths_without_scheme,
    "a stop goes by the clock": stops_by_the_clock,
    "a run asks before it has begun": asked_before_begun,
}
