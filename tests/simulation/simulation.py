"""One seed of the simulation: a live run that everything befalls, and the same run undisturbed.

    script + faults ──▶ disturbed run ──▶ which micro-batch read which control rows ──▶ undisturbed run
                             └──▶ output, late rows, counts, events ◀── must be the same ──┘

Control rows take effect where they are read, and a fault may move that: so the undisturbed run reads them in the same
micro-batches. A stop or a drain is for one run: it is read again only where the micro-batch is of that run.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from engine.soak import MemoryFiles, TickingClock

from midstream.change import forget
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.control.controls import CHANGE, DRAIN, STOP
from midstream.engine.world import World
from midstream.live import repository, retention
from midstream.live.owned_folder import OWNER
from midstream.live.repository import StoredVersions
from midstream.live.sink import Owner
from midstream.model.errors import MidstreamError
from midstream.model.timing import Timing
from simulation.disk import File
from simulation.event_files import EventFiles
from simulation.fiber import Fiber
from simulation.host import SimulatedHost
from simulation.log import ConcurrentDriver, HostLog
from simulation.machine import HOME, Fault, Found, Machine, SimulatedNames, failure_of
from simulation.outcome import REMEMBERED, Outcome, outcome_of
from simulation.process import Crash, Process
from simulation.reader import Reader, Seen
from simulation.scripts import Action, Script
from simulation.sinks import sink_for
from simulation.tasks import TaskFailed
from simulation.users import act_elsewhere, act_here

CHECKPOINT, RESULTS = HOME / "data" / "checkpoint", HOME / "data" / "results"
IDLE = 2
"""Micro-batches without rows before the end."""
MOST_IDLE = 40
MOST_DRIVERS = 120
MOST_VERSIONS = 12
"""Versions that a query had which was deleted."""
ENDING = (STOP, DRAIN)
BY_USER = re.compile(r"\d{20}-[0-9a-f]{8}\.json")


@dataclass(frozen=True)
class Case:
    """What a seed says: a script and the faults."""

    seed: int
    script: Script
    faults: tuple[Fault, ...] = ()
    share: float = 0.0

    def __str__(self) -> str:
        return f"seed {self.seed}\n{self.script}\n  faults: {', '.join(map(str, self.faults))}; share {self.share}"


class Simulation:
    """A live run on a simulated machine, to its end."""

    def __init__(self, case: Case) -> None:
        repository._plans.clear()
        repository._rows.clear()
        self.case, self.script = case, case.script
        self.machine = Machine(f"{case.seed}", case.faults, case.share)
        self.log = HostLog()
        self.checkpoint = CHECKPOINT
        self.reader = Reader(self.machine.disk, RESULTS)
        self.events = EventFiles(self.machine.disk, CHECKPOINT)
        self.machine.watchers += [self.reader.look, self.events.look]
        self.machine.on_power_cut = self._on_power_cut
        self.machine.on_second = self._second_driver
        self.machine.on_second_query = self._second_query
        self.to_ask = list(self.script.actions)
        self.controls: dict[str, dict[str, Any]] = {}
        """Control rows that were planned to be read, by the name of their file."""
        self.versions: dict[int, bytes] = {}
        """Versions that they name, as they were written."""
        self.run_of: dict[int, int] = {}
        """The run that a micro-batch is of."""
        self.timings_of: dict[int, tuple[Timing, ...]] = {}
        """How the rows of each stream are judged, by the run that plans to read them."""
        self.sent: list[str] = []
        """Ids of control rows in the order in which they were sent."""
        self.meant: dict[str, int] = {}
        """The run that a stop or drain was sent to, as whoever sent it knows."""
        self.last: SimulatedHost | None = None
        """The last driver; not one that lost its lock while it began, however late it goes on."""
        self.over = False
        self.drivers = 0

    def _on_power_cut(self) -> None:
        self.reader.on_power_cut(self.log.commits)
        self.events.on_power_cut()

    def run(self) -> "Simulation":
        """Run drivers, one after the other, until the last has read everything."""
        while not self.over:
            self.drivers += 1
            if self.drivers > MOST_DRIVERS:
                raise Found("the query does not come to its end")
            self._drive()
        self.machine.finish()
        self._raise_found()
        self.reader.look()
        self.events.look()
        return self

    def _drive(self) -> None:
        machine = self.machine
        process = machine.driver = machine.process(f"driver {self.drivers}")
        fiber = machine.driving = Fiber(lambda: self._driver(process), process.name)
        machine.run(fiber)
        self._raise_found()
        if not fiber.done:
            machine.leave(fiber)
            return
        failure = failure_of(fiber)
        machine.recent.append(f"*** {process.name} has ended: {type(failure).__name__} {failure}")
        if failure is not None and not self._may_fail(failure):
            raise failure
        process.kill()

    def _raise_found(self) -> None:
        if self.machine.found is not None:
            raise self.machine.found

    def _may_fail(self, failure: BaseException) -> bool:
        """Return whether a driver may end so: somebody else drives, tasks died too often, the disk was full."""
        if isinstance(failure, Found):
            return False
        if self.machine.zombies or isinstance(failure, ConcurrentDriver | TaskFailed):
            return True  # whoever is behind finds that others have gone on, in whatever way; the next driver recovers
        if isinstance(failure, MidstreamError) and "in use" in str(failure):
            return True
        if self.script.waiting is not None and "rows wait, and no more" in str(failure):
            return True  # the next driver runs the micro-batch again, and goes on behind it
        if any(f.what == "stale parts" for f in self.case.faults) and "results are found" in str(failure):
            return True
        return self.disk_full and "No space left" in f"{failure} {failure.__cause__}"

    @property
    def disk_full(self) -> bool:
        """Return whether the disk was full for a while, or is to be."""
        return any(fault.what == "disk full" for fault in self.case.faults)

    def _driver(self, process: Process) -> None:
        sink = sink_for(self.script.sink, RESULTS, process.world)
        host = SimulatedHost(self, process, sink)
        if process not in self.machine.zombies:
            self.last = host
        host.drive()
        self.over = host.last_asked and process not in self.machine.zombies

    def _second_driver(self) -> None:
        """Start a second driver while the first lives: it is refused, and nothing changes."""
        first = self.machine.driver
        if first is None or not first.alive or self.last is None or self.last.process is not first or self.last.over:
            return
        process = self.machine.process("second driver")
        try:
            SimulatedHost(self, process, sink_for(self.script.sink, RESULTS, process.world))
        except (MidstreamError, OSError, Crash):
            return
        finally:
            process.kill()
        if first.alive and first not in self.machine.zombies:  # one that lost its lock meanwhile keeps nobody away
            self.machine.found = Found("a second driver has begun beside the first")
            raise self.machine.found

    def _second_query(self) -> None:
        """Start another query into the results of this one: it is refused, and nothing changes."""
        if self.machine.disk.find(RESULTS / OWNER) is None:
            return
        process = self.machine.process("second query")
        try:
            sink_for(self.script.sink, RESULTS, process.world).begin(Owner("0" * 32, "other", HOME / "other", False))
        except (MidstreamError, OSError, Crash):
            return
        finally:
            process.kill()
        self.machine.found = Found("another query has begun to write where this one does")
        raise self.machine.found

    # What the host asks

    def before_batch(self, host: SimulatedHost, number: int) -> tuple[str, ...]:
        """Let users ask for what is due; return the control rows that a micro-batch reads."""
        machine = self.machine
        due = [a for a in self.to_ask if a.batch <= number]
        self.to_ask = [a for a in self.to_ask if a.batch > number]
        for action in due:
            self._ask(host, action, number)
        if number > len(self.script.batches) + MOST_IDLE:
            raise Found("the query does not come to rest")
        if number > len(self.script.batches):
            machine.finish()
        rest = not self.to_ask and not machine.fibers and not (host.live.unread or host.live.mail_waits())
        if number >= len(self.script.batches) + IDLE and rest and not self._unread(host) and not host.last_asked:
            self._sent(len(self.sent), (host.ask_to_end(drain=True), host.runs.latest))
            host.last_asked = True
        if machine.take("stale listing"):
            return ()
        names = self._unread(host)
        # The host's log is on a disk that keeps changes in order: what it has planned to read lasts.
        self.machine.disk.folder(self.checkpoint / "control").sync()
        return self._take(names)

    def _unread(self, host: SimulatedHost) -> list[str]:
        """Return the control rows that the host finds and no micro-batch reads; it goes to where it is told to."""
        read = self.log.read()
        scheme, _, path = host.places()[0].rpartition("://")
        if not scheme and self.script.other_default:
            return []  # another file system is the host's default, and nothing is there
        names = host.process.world.files.names(Path(path))
        return [n for n in names if n.endswith(".json") and not n.startswith(".") and n not in read]

    def _take(self, names: Sequence[str]) -> tuple[str, ...]:
        """Remember what is read, for the undisturbed run."""
        for name in names:
            row = json.loads(self.machine.disk.file(self.checkpoint / "control" / name).data)
            self.controls[name] = row
            file = self.machine.disk.find(self.checkpoint / "versions" / f"{row.get('version', 0):04d}.version")
            if row["do"] == CHANGE and isinstance(file, File):
                # It is gone where whoever asks has slept for so long that others took it for nobody's.
                self.versions[row["version"]] = file.data
        return tuple(names)

    def on_planned(self, host: SimulatedHost, number: int) -> None:
        """Note of which run a micro-batch is: the one that has planned it.

        A driver that was overtaken may plan one more, and does not run it: whose that is, the first driver says that
        does.
        """
        begun = (name.partition(".") for name in self.machine.disk.folder(self.checkpoint / "runs").names)
        if host.runs.latest == max(int(run) for run, _, ending in begun if ending == "begun"):
            self.run_of[number] = host.runs.latest

    def on_run(self, host: SimulatedHost, number: int) -> None:
        """Look that a micro-batch is of the same run, whoever runs it: a drain in it lets rows leave, or does not."""
        run = host.runs.of(number)
        if run != self.run_of.setdefault(number, run):
            found = Found(f"micro-batch {number} is of run {self.run_of[number]}, and for {host.process.name} of {run}")
            self.machine.found = self.machine.found or found
            raise found

    def judged(self, spec: BucketSpec, number: int) -> BucketSpec:
        """Return what all buckets share in a micro-batch."""
        return spec

    def effective(self, batch: int, name: str) -> bool:
        """Return whether a stop or drain that a micro-batch reads is for the run that planned it."""
        row = self.controls[name]
        run = self.meant.get(row["id"], row.get("run"))
        return row["do"] in ENDING and run == self.run_of[batch]

    def after_batch(self, host: SimulatedHost, number: int) -> None:
        """Look whether a stop that the run itself has planned to read is obeyed."""
        if host.process in self.machine.zombies:
            return
        self._check_packed(host)
        asked = self.run_of[number] == host.runs.latest and any(
            self.effective(number, name) for name in self.log.offsets[number].controls
        )
        if asked != host.ends and not host.drains:
            raise Found(f"a stop in micro-batch {number} is {'not obeyed' if asked else 'for another run, and obeyed'}")

    def _check_packed(self, host: SimulatedHost) -> None:
        """Look whether rows are packed of a version that nobody has asked for: who did may have died before."""
        process = host.process
        files = Seen(self.machine.disk, None)
        folder = self.checkpoint / "control"
        rows = [json.loads(files.read(folder / name)) for name in files.names(folder) if not name.startswith(".")]
        asked = {row["version"] for row in (*rows, *self.controls.values()) if row["do"] == CHANGE}
        world = World(files, process.world.clock, process.world.names)  # type: ignore[arg-type]
        packed = {number for number, _ in replace(host.live.versions, world=world).wanted()}
        if packed - asked - {1}:
            raise Found(f"rows are packed of versions {packed - asked - {1}}, which nobody has asked for")

    def _sent(self, began: int, sent: tuple[str, int | None] | None) -> None:
        """Note that a control row was sent; those that were sent before it began take effect before it."""
        if sent is None:
            return
        identity, run = sent
        before = max(self.sent[:began], default="")
        if identity < before:
            raise Found(f"control row {identity} takes effect before {before}, which was sent earlier")
        self.sent.append(identity)
        if run is not None:
            self.meant[identity] = run

    def plans_another(self, host: SimulatedHost) -> bool:
        """Return whether one more micro-batch is planned after the one that carried a stop; it is not run."""
        return not host.last_asked and self.machine.rnd.random() < 0.3

    def _ask(self, host: SimulatedHost, action: Action, number: int) -> None:
        if action.here:
            try:
                self._sent(len(self.sent), act_here(host, self.script, action))
            except MidstreamError:
                pass
            except OSError as failure:
                if not self._may_fail(failure):
                    raise
            return
        process = self.machine.process(f"user {action.what}")
        fiber = Fiber(lambda: self._user(process, action, number), process.name)
        self.machine.run(fiber, self.machine.rnd.choice([1 << 60, 1 << 60, 3, 10]))
        self.machine.leave(fiber)

    def _user(self, process: Process, action: Action, number: int) -> None:
        began = len(self.sent)
        try:
            self._sent(began, act_elsewhere(process, self.checkpoint, self.script, action))
        except MidstreamError:
            pass
        except Found as found:
            self.machine.found = found
        except Crash:
            if self.machine.rnd.random() < 0.5:
                self.to_ask.append(Action(number + 1, action.what, action.arguments))
        except OSError as failure:
            if not self._may_fail(failure):
                raise
        finally:
            process.kill()


class Undisturbed(Simulation):
    """The same run without faults: micro-batches read what those of the disturbed run have read."""

    def __init__(self, disturbed: Simulation) -> None:
        super().__init__(Case(disturbed.case.seed, replace(disturbed.script, waiting=None)))
        self.disturbed = disturbed
        self.to_ask = []

    def before_batch(self, host: SimulatedHost, number: int) -> tuple[str, ...]:
        before = self.disturbed
        names = []
        for name in before.log.offsets[number].controls:
            row = before.controls[name]
            if row["do"] in ENDING:
                if before.effective(number, name):
                    self._write(host, name, {**row, "run": host.runs.latest})
                    names.append(name)
                continue
            if BY_USER.fullmatch(name):
                if row["do"] == CHANGE and row["version"] in before.versions:
                    version = before.versions[row["version"]]
                    host.process.world.files.make_folder(self.checkpoint / "versions")
                    host.process.world.put(self.checkpoint / "versions" / f"{row['version']:04d}.version", version)
                self._write(host, name, row)
            elif name not in self._unread(host):
                raise Found(f"micro-batch {number} has read {name}, which the undisturbed run has not sent")
            names.append(name)
        self.over = number == max(before.log.commits)
        return self._take(names)

    def judged(self, spec: BucketSpec, number: int) -> BucketSpec:
        """Judge rows as the run did that planned to read them."""
        before = self.disturbed
        run = before.run_of[number]
        if run in before.timings_of:
            return replace(spec, timings=dict(enumerate(before.timings_of[run])))
        # Its driver died before it was over with beginning, and a zombie has planned a micro-batch after it had begun.
        held = json.loads(before.machine.disk.file(CHECKPOINT / "runs" / f"{run:08d}.json").data)
        return replace(spec, timings={int(place): Timing(**said) for place, said in held["timings"].items()})

    def _write(self, host: SimulatedHost, name: str, row: dict[str, Any]) -> None:
        host.process.world.put_json(self.checkpoint / "control" / name, row)

    def after_batch(self, host: SimulatedHost, number: int) -> None:
        if self.over:
            host.last_asked = True
            host._end_after = number

    def plans_another(self, host: SimulatedHost) -> bool:
        return False

    def _driver(self, process: Process) -> None:
        self.over = False
        self.last = SimulatedHost(self, process, sink_for(self.script.sink, RESULTS, process.world))
        self.last.drive()
        self.over = self.last.last_asked


def run_before(script: Script) -> None:
    """Let this process have read the versions of another query in the same folders, that was deleted since."""
    world = World(MemoryFiles(), TickingClock(), SimulatedNames("deleted"))
    plans, folders = script.plans, (CHECKPOINT / "versions", CHECKPOINT / "control")
    versions = StoredVersions(*folders, world.names.new(), plans[0], {}, world)
    for _ in range(MOST_VERSIONS):
        number = versions.files.add("", plans[0], "nobody")
        versions.plan_of(number)
        versions.is_asked(number)


def simulate(case: Case) -> tuple[str, Outcome]:
    """Run a case and compare it with the undisturbed run; return its trace and outcome. Found if they differ."""
    forgetful = mock.patch.multiple(forget, KEPT=REMEMBERED)
    with forgetful, mock.patch.multiple(retention, EVERY=3, KEPT_VERSIONS=REMEMBERED):
        disturbed = Simulation(case)
        if case.script.deleted:
            run_before(case.script)
        try:
            disturbed.run()
        finally:
            disturbed.machine.finish(kill=True)
        undisturbed = Undisturbed(disturbed).run()
    got, expected = outcome_of(disturbed), outcome_of(undisturbed)
    got.compare(expected, bool(disturbed.machine.zombies), disturbed.disk_full)
    return disturbed.machine.trace.hexdigest(), got
