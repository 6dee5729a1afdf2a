"""Mutants: mends that are taken back, one at a time, to see that the simulation finds what they mend.

Each is the source as it was before, as far as it matters here.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from midstream.change.forget import forget_settled
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.control.controls import DRAIN, STOP
from midstream.engine.control.runs import Runs
from midstream.engine.rows.routing import buckets_of
from midstream.engine.world import Data, World, document_bytes
from midstream.live.control_log import ControlLog, number_of
from midstream.live.kept_table import KeptTable
from midstream.live.owned_folder import FORMAT, OWNER
from midstream.live.query import LiveQuery
from midstream.live.repository import StoredVersions
from midstream.live.result_folder import ResultFolder
from midstream.live.run import LiveRun
from midstream.live.run_log import RunLog
from midstream.live.sink import Owner
from midstream.plan.partition import Partitioning

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


@contextlib.contextmanager
def results_of_nobody() -> Iterator[None]:
    """A folder of results is anybody's."""

    def begin(self: ResultFolder, owner: Owner) -> None:
        files = self._world.files
        self._world.add(self.folder / OWNER, document_bytes({"format": FORMAT, "query": owner.identity}))
        for name in files.names(self.folder):
            if name.startswith(".pending-"):
                files.remove_folder(self.folder / name)

    with mock.patch.object(ResultFolder, "begin", begin):
        yield


@contextlib.contextmanager
def answers_of_earlier_runs() -> Iterator[None]:
    """A driver that was believed dead puts the answer it was about to write in place of a newer one."""

    def fence(self: Any, first: int, check_newest: Any) -> None:
        pass

    with mock.patch.object(KeptTable, "fence", fence), mock.patch.object(ResultFolder, "fence", fence):
        yield


@contextlib.contextmanager
def versions_are_asked_for() -> Iterator[None]:
    """A version is packed from the moment it is there, though whoever put it there may die before asking for it."""

    def is_asked(self: StoredVersions, number: int) -> bool:
        return self.files.has(number)

    with mock.patch.object(StoredVersions, "is_asked", is_asked):
        yield


@contextlib.contextmanager
def dealt_out_in_turn() -> Iterator[None]:
    """Rows are dealt out to buckets in the order in which they are read, which need not be the same again."""
    by_content = buckets_of

    def by_place(
        partitioning: Partitioning, alias: str, buckets: int, times: npt.NDArray[np.int64], *given: Any
    ) -> npt.NDArray[np.int64] | None:
        if alias == partitioning.by_row:
            return np.arange(len(times)) % buckets
        return by_content(partitioning, alias, buckets, times, *given)

    with mock.patch("midstream.live.pack.buckets_of", by_place):
        yield


@contextlib.contextmanager
def written_without_a_sync() -> Iterator[None]:
    """What is in a file is not synced before the file gets its name."""

    def put(
        self: World, file: Path, data: Data, lasting: bool = True, point: Callable[[], None] = lambda: None
    ) -> None:
        pending = file.with_name(f".{file.name}.{self.names.new()[:8]}.pending")
        self.files.write(pending, data, False)
        self.files.move(pending, file, lasting)

    with mock.patch.object(World, "put", put):
        yield


@contextlib.contextmanager
def plans_by_folder() -> Iterator[None]:
    """A process knows plans by the folder they are from, which may be of another query by now."""

    def asked(self: StoredVersions) -> list[int]:
        return [number for number in self.files.numbers() if self.is_asked(number)]

    with (
        mock.patch.object(StoredVersions, "_key", property(lambda self: ("", str(self.folder)))),
        mock.patch.object(StoredVersions, "asked", asked),
    ):
        yield


@contextlib.contextmanager
def parts_as_they_are_listed() -> Iterator[None]:
    """The files of the workers are taken as a listing has them."""
    publish = ResultFolder._publish

    def _publish(self: ResultFolder, schema: Any, batches: Any, batch: int, expected: int | None = None) -> None:
        publish(self, schema, batches, batch)

    with mock.patch.object(ResultFolder, "_publish", _publish):
        yield


@contextlib.contextmanager
def waiting_is_forgotten() -> Iterator[None]:
    """A bucket forgets a version that keeps rows already, for the change to it has not begun."""
    with mock.patch("midstream.engine.bucket.bucket.forget_settled", lambda control, needed: forget_settled(control)):
        yield


@contextlib.contextmanager
def judged_by_who_runs_it() -> Iterator[None]:
    """A micro-batch is judged by what is allowed now, not by what was when it was planned."""
    with mock.patch.object(BucketSpec, "of_batch", lambda self, number: self):
        yield


MUTANTS: dict[str, Mutant] = {
    "a version is retired before the commit": retired_before_commit,
    "a stop acts on the next run": stops_for_any_run,
    "paths have no scheme": paths_without_scheme,
    "a stop goes by the clock": stops_by_the_clock,
    "plans are known by their folder": plans_by_folder,
    "results are nobody's": results_of_nobody,
    "a version is there before it is asked for": versions_are_asked_for,
    "rows are dealt out in turn": dealt_out_in_turn,
    "a file is not synced": written_without_a_sync,
    "files that are not listed are not missed": parts_as_they_are_listed,
}
WITH_TWO_DRIVERS: dict[str, Mutant] = {"a run asks before it has begun": asked_before_begun}
"""Those that need drivers that lose their locks and go on."""
WITH_ANSWERS: dict[str, Mutant] = {"earlier runs replace answers": answers_of_earlier_runs}
"""Those that need drivers that lose their locks while they replace an answer."""
RETIMED: dict[str, Mutant] = {"rows are judged by the run that runs them": judged_by_who_runs_it}
"""Those that need runs that are started with another lateness."""
PLAIN: dict[str, Mutant] = {"a version that waits is forgotten": waiting_is_forgotten}
"""Those that show soonest where nothing but changes goes on."""
