"""Run log: the runs of a live query, in a folder of its checkpoint, and with which micro-batch each of them began.

N.begun     run N has begun: an earlier one, whose driver lost its lock, ends when it sees that
N.json      the first micro-batch that run N has planned, and what it allows of the times of rows; null: another run
            began before it knew
runs.json   beside the folder: all of them, as an older release wrote them

A run first lets others see that it has begun, and then asks what was planned. So what an earlier run still runs was
planned before, is a micro-batch of that run, and stays one for whoever runs it again. Each file is written once, and
never in place of another: two drivers that begin at once do not undo what the other has written.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from midstream.engine.control.runs import Runs
from midstream.engine.world import World, document_bytes
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import check_format, document, whole
from midstream.model.names import numbers_among
from midstream.model.timing import Timing

FORMAT = 1
"""The form in which runs are written."""
MOST_RUNS = 100
"""Runs that are remembered: control rows for older ones are long read."""
NO_RUN = 10**8
"""More runs than there can be: a file that names a later one is nobody's."""
BEGUN, FIRST = ".begun", ".json"


class RunLog:
    """The runs of one query. Invariant: a micro-batch is of the same run for every driver that runs it."""

    def __init__(self, folder: Path, world: World) -> None:
        self._folder = folder
        self._world = world

    def latest(self) -> int:
        """Return the number of the latest run that has begun; 0 before the first."""
        begun = self._numbers(BEGUN)
        return max(begun) if begun else self._older().latest

    def begin(self, planned: Callable[[], int], timings: Mapping[int, Timing] | None = None) -> Runs:
        """Note that another run begins; `planned` returns the last micro-batch that was planned, -1 if there is none.

        `timings` say what it allows of the times of rows, by position of the stream. Return the runs, this one last.
        """
        self._world.files.make_folder(self._folder)
        run = max([self._older().latest, *self._numbers(BEGUN), *self._numbers(FIRST)]) + 1
        if not self._world.add(self._file(run, BEGUN), b""):
            raise self._late(run)
        reach("run announced")
        for earlier in sorted({*self._numbers(BEGUN)} - {*self._numbers(FIRST)}):
            if earlier < run:  # it died before it knew, or will find that it is too late
                self._settle(earlier, None)
        if not self._settle(run, planned() + 1, timings):
            raise self._late(run)
        self._forget(run - MOST_RUNS)
        runs = Runs(tuple(sorted([*self._older().begun, *self._known(run)])))
        return replace(runs, timings_before=self._timings_of(runs.of(runs.first - 1)))

    def _late(self, run: int) -> MidstreamError:
        return MidstreamError(f"run {run} has not begun: another process has begun run {self.latest()} meanwhile")

    def _settle(self, run: int, first: int | None, timings: Mapping[int, Timing] | None = None) -> bool:
        """Write down with which micro-batch a run began, unless somebody has; return whether nobody had."""
        allowed = {} if timings is None else {"timings": {str(p): asdict(t) for p, t in timings.items()}}
        settled = document_bytes({"format": FORMAT, "first": first, **allowed})
        return self._world.add(self._file(run, FIRST), settled, lambda: reach("run pending"))

    def _timings_of(self, run: int) -> dict[int, Timing] | None:
        """Return what a run allows of the times of rows, or None where that is not written down."""
        file = self._file(run, FIRST)
        held = self._world.read_json(file)
        if held is None or "timings" not in held:
            return None
        with whole(file):
            return {int(position): Timing(**allowed) for position, allowed in held["timings"].items()}

    def _known(self, last: int) -> Iterator[tuple[int, int]]:
        """Yield the runs up to one that have planned something, and the first micro-batch of each."""
        for run in self._numbers(FIRST):
            if run <= last:
                file = self._file(run, FIRST)
                held = document(file, self._world.files.read(file))
                check_format(f"{file}", held.get("format"), FORMAT)
                with whole(file):
                    first = held["first"]
                    if first is not None:
                        yield run, int(first)

    def _older(self) -> Runs:
        """Return the runs that an older release has written down."""
        file = self._folder.with_name("runs.json")
        held = self._world.read_json(file)
        if held is None:
            return Runs()
        check_format(f"{file}", held.get("format"), FORMAT)
        with whole(file):
            return Runs(tuple((int(run), int(first)) for run, first in held["runs"]))

    def _forget(self, last: int) -> None:
        """Forget the runs up to one."""
        for ending in (BEGUN, FIRST):
            for run in self._numbers(ending):
                if run <= last:
                    self._world.files.remove(self._file(run, ending))

    def _numbers(self, ending: str) -> list[int]:
        names = self._world.files.names(self._folder)
        return sorted(numbers_among(names, ending, 8, NO_RUN))

    def _file(self, run: int, ending: str) -> Path:
        return self._folder / f"{run:08d}{ending}"
