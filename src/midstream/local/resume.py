"""Resume: a run in process as plain values and tables, and back, by way of its checkpoint.

running loop ──▶ position, plans, merger, control rows, records, totals ──▶ checkpoint ──▶ a loop that goes on there
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from midstream.engine.bucket.state import kind_of
from midstream.local.batch_folder import BatchFolder
from midstream.local.checkpoint import Checkpoint
from midstream.local.declared import check_declared, check_order
from midstream.local.files import opening
from midstream.local.folder_store import FolderStore
from midstream.local.loop import Loop, RunningLoop
from midstream.local.report import BatchReport
from midstream.model.format import whole
from midstream.model.stream import StreamSchema
from midstream.model.timing import Timing
from midstream.plan.aggregates import UserAggregate
from midstream.plan.json import own_aggregates, read_plan, read_schema, write, write_plan, write_schema
from midstream.plan.plan import Plan

WHOSE = {
    "query": "belongs to another query; start with a new checkpoint",
    "buckets": "was written with buckets = {was} and cannot go on with {now}; start with buckets = {was}",
    "batch_us": "was written with micro-batches of another width (microseconds: {was}, not {now}); start with the same "
    "batch, or without one",
    "framework": "was written with framework = '{was}', not '{now}'; start with the same one",
    "schedule": "was written with other changes on the way; start with the same schedule or a new checkpoint",
    "streams": "was written over other recorded streams; start with the same rows or a new checkpoint",
    "declared": "was written with other streams; declare the same ones or start with a new checkpoint",
    "sink": "has its results in {was}, not in {now}; start with the same sink or a new checkpoint",
}
"""What to say when a checkpoint is of something else."""


class Resumable:
    """The checkpoint of one run, and the sink that goes with it."""

    def __init__(self, checkpoint: Checkpoint, sink: BatchFolder) -> None:
        self.checkpoint = checkpoint
        self._sink = sink
        self._plans: list[dict[str, Any]] = []
        self._versions: list[Plan] = []
        self._aggregates: dict[str, UserAggregate] = {}
        self._reported = 0
        self._read_us: int | None = None

    def checked(self, loop: Loop) -> Loop:
        """Check that the checkpoint is of this loop; return the loop with the plans it was started with."""
        checkpoint, state = self.checkpoint, self.checkpoint.state
        schemas = [s.schema for s in loop.streams]
        if (declared := checkpoint.identity.get("declared")) is not None:  # those of a release before have none
            with whole(checkpoint.folder / "identity.json"):
                known = [StreamSchema(name, read_schema(columns), time) for name, time, columns in declared]
            check_declared(checkpoint.folder, known, schemas)
            check_order(checkpoint.folder, known, schemas)
            # Streams that were added at the end are none that the checkpoint is of.
            schemas = schemas[: len(known)]
        names = [s.name for s in schemas]
        query = write(loop.plan.query)
        # Where no width is asked for, it is the one that the run began with.
        batch_us = checkpoint.identity.get("batch_us") if loop.batch_us is None else loop.batch_us
        if state is not None:
            asked = json.loads(json.dumps(query))
            with whole(checkpoint.state_file):
                self._plans = state["plans"]
                # Whatever version of it the program names, the run goes on with the one that runs.
                if any(asked == written["plan"]["query"] for written in self._plans):
                    query = self._plans[0]["plan"]["query"]
        who = {
            "query": query,
            "buckets": loop.buckets,
            "batch_us": batch_us,
            "framework": loop.framework,
            "schedule": [[kind_of(due), asdict(due)] for due in loop.schedule],
            "streams": {s.schema.name: [s.rows, *_said(s.timing)] for s in loop.streams if s.schema.name in names},
            "declared": declared or [[s.name, s.time, write_schema(s.columns)] for s in schemas],
            "sink": str(self._sink.folder.resolve()),
        }  # fmt: skip
        begun = checkpoint.begun
        if not begun:
            self._sink.begin(None)
        checkpoint.identify(who, WHOSE)
        checkpoint.clear()
        if begun:
            self._sink.begin(-1 if checkpoint.committed is None else checkpoint.committed)
        loop = replace(loop, batch_us=batch_us)
        if state is None:
            return loop
        with whole(checkpoint.state_file):
            self._versions = self._read_plans(loop)
        first, *versions = self._versions[: 1 + len(loop.versions)]
        return replace(loop, plan=first, versions=versions)

    def _read_plans(self, loop: Loop) -> list[Plan]:
        """Return the plans of all versions there have been."""
        self._aggregates = dict(loop.aggregates)
        for plan in loop.plans:
            self._aggregates |= own_aggregates(plan.query.root)
        return [read_plan(written, self._aggregates) for written in self._plans]

    def stores(self, count: int) -> list[FolderStore]:
        """Return the stores of the buckets."""
        return self.checkpoint.stores(count)

    def begin(self, running: RunningLoop) -> None:
        """Let a run be as the last commit says; a new one commits that nothing has been read."""
        state, report = self.checkpoint.state, running.report
        if state is None:
            self.commit(running)
            return
        with whole(self.checkpoint.state_file):
            running.host.load(state["host"], self.checkpoint.held(), self._versions)
            for name, value in state["report"].items():
                setattr(report, name, value)
            running.uncounted, running.finished = state["uncounted"], state["finished"]
            running.uncounted_ahead = state.get("uncounted_ahead", {})  # older checkpoints have none
            if "registered" in state:  # older checkpoints have none
                running.repository.load(state["registered"], self._aggregates)
            if "advisers" in state:
                running.advisers.load(state["advisers"])
            if running.load is not None and state.get("load") is not None:
                running.load.load(state["load"])
        with whole(self.checkpoint.folder / "batches.jsonl"):
            report.batches = [BatchReport(**batch) for batch in self.checkpoint.batches()]
        self._reported, self._read_us = len(report.batches), running.host.read_us
        running.resume()

    def release(self) -> None:
        """Let another run go on from the checkpoint."""
        self.checkpoint.release()

    def moved(self, running: RunningLoop) -> bool:
        """Return whether the run has gone further than its last commit."""
        return running.host.read_us != self._read_us

    def commit(self, running: RunningLoop) -> None:
        """Write down what a micro-batch, or something asked for, has brought."""
        host, report = running.host, running.report
        number = self.checkpoint.next_number
        self._sink.keep(number)
        fresh_plans = host.plans[len(self._plans) :]
        self._plans = [*self._plans, *map(write_plan, fresh_plans)]
        plain, held = host.to_plain()
        totals = {k: v for k, v in vars(report).items() if k != "batches"}
        state = {
            "finished": running.finished,
            "host": plain,
            "plans": self._plans,
            "registered": running.repository.to_plain(),
            "uncounted": running.uncounted,
            "advisers": running.advisers.to_plain(),
            "load": None if running.load is None else running.load.to_plain(),
            "uncounted_ahead": running.uncounted_ahead,
            "report": {**totals, "wall_s": running.wall_s},
        }
        fresh = [asdict(batch) for batch in report.batches[self._reported :]]
        self.checkpoint.commit(state, held, fresh)
        self._sink.show(number)
        self._reported, self._read_us = len(report.batches), host.read_us


def _said(timing: Timing) -> list[Any]:
    """Return a timing as plain values: without what came later than the first checkpoints, as those have it."""
    further = {k: v for k, v in asdict(timing).items() if k != "lateness_us" and v is not None}
    return [timing.lateness_us, *([further] if further else [])]


def resume(loop: Loop, folder: Path, sink: BatchFolder) -> RunningLoop:
    """Get ready to run with a checkpoint, or to go on from it where it exists."""
    with opening(folder):
        keeper = Resumable(Checkpoint(folder), sink)
    try:
        with opening(folder):
            running = RunningLoop(keeper.checked(loop), sink, None, keeper)
    except BaseException:
        keeper.release()
        raise
    if running.finished:
        keeper.release()
    return running
