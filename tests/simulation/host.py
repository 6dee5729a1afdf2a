"""The simulated host: brings micro-batches to a live run as Structured Streaming does.

    plan: offsets and control rows are written down ──▶ run ──▶ on_batch ──▶ commit ──▶ the next one

A host that finds a micro-batch planned and not committed runs that one first, with what was planned.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.run.contract import Framework
from midstream.live.planned import LiveStream, PlannedLive
from midstream.live.run import EndOfRun, LiveRun
from midstream.live.settings import MOST_WAITING, LiveSettings
from midstream.live.sink import BatchSink
from midstream.local.sites import SITES, place_plan
from simulation.log import Planned
from simulation.process import Process
from simulation.tasks import SimulatedLines

if TYPE_CHECKING:
    from simulation.simulation import Simulation


MORE_LABELS = (11, 12, 13, 14)
"""Of queries that need more buckets than a script names."""


class SimulatedHost(LiveRun):
    """One driver."""

    def __init__(self, sim: "Simulation", process: Process, sink: BatchSink) -> None:
        script = sim.script
        self.timings = script.timings_of(sim.drivers)
        streams = [LiveStream(schema, self.timings[k]) for k, schema in enumerate(script.schemas)]
        plan, framework = script.plans[0], Framework(script.framework)
        if script.sites is not None:
            plan, declared = place_plan(plan, script.sites)
            framework = Framework(SITES, sites=declared)
        query = PlannedLive("simulated", plan, streams, script.planned, {})
        settings = LiveSettings(sim.checkpoint, len(script.labels), script.ordered, [s.name for s in script.schemas])
        settings = replace(settings, kept=script.kept, waiting=script.waiting or MOST_WAITING)
        settings = replace(settings, framework=framework)
        super().__init__(query, settings, process.world)
        self.sim, self.process = sim, process
        self._open(sink, (*script.labels, *MORE_LABELS)[: self.buckets])
        self.labels = tuple(self.who["labels"])
        self.inputs = [(k, s.schema) for k, s in enumerate(streams) if s.schema.name in self.catalog.read]
        self.over = False
        self.last_asked = False
        """This run has been asked to drain, for everything has been read."""
        try:
            self._begin(lambda: sim.log.planned)
        except BaseException:
            self._checkpoint.release()
            raise
        sim.timings_of[self.runs.latest] = self.timings

    def spec_of(self, number: int) -> BucketSpec:
        """Return what all buckets share in a micro-batch."""
        return self.sim.judged(self.bucket_spec().of_batch(number), number)

    @property
    def ends(self) -> bool:
        """Return whether the last micro-batch carried a stop."""
        return self._end_after is not None

    @property
    def drains(self) -> bool:
        """Return whether a micro-batch of this run has carried a drain: it ends when no mail waits."""
        return self._drains

    def lives(self) -> bool:
        return self.process.alive and not self.over

    def drive(self) -> None:
        """Run micro-batches until somebody stops the run."""
        try:
            while not self.over:
                self._next()
        except EndOfRun:
            self.over = True
        except Exception as failure:
            self.over = True
            self._end(f"{type(failure).__name__}: {failure}")
            raise
        self._end(None)

    def _next(self) -> None:
        log = self.sim.log
        number = log.planned
        if number < 0 or number in log.commits:
            number += 1
            self.process.step("plan", changes=False)
            self.live.nudge()
            controls = self.sim.before_batch(self, number)
            self.process.step(f"offsets {number}")
            log.plan(number, Planned(controls))
            self.sim.on_planned(self, number)
        folder = self._checkpoint.controls.folder
        texts = [self.process.world.files.read(folder / name) for name in log.offsets[number].controls]
        self.on_batch(SimulatedLines(self, number, texts), number)
        self.process.step(f"commit {number}")
        log.commit(number)
        self.process.step("committed", changes=False)
        self.sim.after_batch(self, number)
        self.over = self.ends and not self.sim.plans_another(self)
