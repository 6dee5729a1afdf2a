"""A simulated machine: a disk, a clock, names, shared memory, processes, and the faults that befall them.

    a process takes a step ──▶ is a fault due? ──▶ who else goes on for a while? ──▶ do readers see what they may?

All of it follows from one seed: no real time, no real randomness.
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulation.disk import SimulatedDisk
from simulation.fiber import Fiber
from simulation.memory import SharedMemory
from simulation.process import Crash, Process

START_NS = 1_790_000_000 * 10**9
HOME = Path("/sim/home")
"""A folder that is there and stays."""


class Found(BaseException):
    """Something that must not be. No `except Exception` of what is simulated may hide it."""


@dataclass(frozen=True, order=True)
class Fault:
    """What happens when the machine has changed something so many times."""

    at: int
    what: str
    size: int = 0

    def __str__(self) -> str:
        return f"{self.what}@{self.at}" + (f"({self.size})" if self.size else "")


class SimulatedNames:
    """Names from a seed."""

    def __init__(self, seed: str) -> None:
        self._rnd = random.Random(f"names {seed}")

    def new(self) -> str:
        return f"{self._rnd.getrandbits(128):032x}"


class Machine:
    """One machine with all its processes."""

    def __init__(self, seed: str, faults: Sequence[Fault] = (), share: float = 0.0) -> None:
        self.rnd = random.Random(f"run {seed}")
        self.names = SimulatedNames(seed)
        self.disk = SimulatedDisk()
        self.memory = SharedMemory()
        self.processes: list[Process] = []
        self.fibers: list[Fiber] = []
        """Those that were left in the middle: users, tasks that linger, zombies."""
        self.driver: Process | None = None
        self.driving: Fiber | None = None
        """What the driver runs in."""
        self.zombies: list[Process] = []
        self.count = 0
        """How many changes there were."""
        self.flags: set[str] = set()
        """Faults that wait for their occasion."""
        self.found: Found | None = None
        """What was seen in a process that does not report it."""
        self.watchers: list[Callable[[], None]] = []
        self.on_second: Callable[[], None] = lambda: None
        """Starts a second driver."""
        self.on_second_query: Callable[[], None] = lambda: None
        """Starts another query into the same results."""
        self.on_power_cut: Callable[[], None] = lambda: None
        self.trace = hashlib.sha256()
        self.recent: list[str] = []
        self._faults: list[Fault] = []
        self._share = share
        """How often somebody else goes on between two steps."""
        self._elapsed_ns = 0
        self._skew_ns = 0
        self._full_until = 0
        self._seen = -1
        self._nested = False
        self._turn: list[tuple[Fiber, int]] = []
        """The fiber that runs, and how many steps it has left."""
        self._make_home()
        self._faults = sorted(faults, reverse=True)

    def _make_home(self) -> None:
        process = self.process("admin")
        process.world.files.make_folder(HOME)
        for path in (HOME, HOME.parent, HOME.parent.parent):
            process.world.files.sync(path)
        self.count = 0

    # Time

    @property
    def clock_ns(self) -> int:
        return START_NS + self._elapsed_ns + self._skew_ns

    def now_ns(self) -> int:
        self._elapsed_ns += 1_000_000
        return self.clock_ns

    def elapsed_s(self) -> float:
        self._elapsed_ns += 1_000_000
        return self._elapsed_ns / 1e9

    def pass_time(self, seconds: float) -> None:
        self._elapsed_ns += int(seconds * 1e9)

    @property
    def full(self) -> bool:
        return self.count < self._full_until

    # Processes

    def process(self, name: str) -> Process:
        process = Process(name, self)
        self.processes = [p for p in self.processes if p.alive]
        self.processes.append(process)
        return process

    def leave(self, fiber: Fiber) -> None:
        """Let a fiber go on now and then, while others take their steps."""
        if not fiber.done:
            self.fibers.append(fiber)

    def run(self, fiber: Fiber, steps: int = 1 << 60) -> None:
        """Let a fiber go on for so many steps."""
        self._turn.append((fiber, steps))
        nested, self._nested = self._nested, True
        try:
            fiber.resume()
        finally:
            self._nested = nested
            self._turn.pop()

    def pause(self) -> None:
        """Leave the fiber that runs in the middle; whoever let it go on does so now."""
        self._turn[-1][0].pause()

    def on_step(self, process: Process, what: str, path: str, changes: bool) -> None:
        """Decide what happens before a process takes a step."""
        line = f"{process.name} {what} {path}"
        self.trace.update(line.encode())
        self.recent.append(line)
        if len(self.recent) > 4000:
            del self.recent[:2000]
        if self.disk.changed != self._seen:
            self._seen = self.disk.changed
            self._watch()
        if changes:
            self.count += 1
            while self._faults and self._faults[-1].at <= self.count:
                self._befall(process, self._faults.pop())
                if not process.alive:
                    return
        if self._turn and self._turn[-1][0] is self.driving and self._freezes_at(path):
            self._freeze()
            if not process.alive:
                return
        if self._turn:
            fiber, left = self._turn[-1]
            self._turn[-1] = fiber, left - 1
            if left <= 0:
                fiber.pause()
                if not process.alive:
                    return
        if self.fibers and len(self._turn) < 2 and self.rnd.random() < self._share:
            self.go_on(self.rnd.choice(self.fibers), self.rnd.choice([1, 2, 5, 20, 100]))

    def go_on(self, fiber: Fiber, steps: int = 1 << 60) -> None:
        """Let a fiber that was left go on for a while."""
        if fiber.active:
            return
        self.run(fiber, steps)
        if fiber.done:
            self.fibers = [f for f in self.fibers if f is not fiber]

    def finish(self, kill: bool = False) -> None:
        """Let all fibers that were left come to their end; zombies die."""
        for process in self.processes if kill else self.zombies:
            process.kill()
        while waiting := [fiber for fiber in self.fibers if not fiber.active]:
            self.go_on(waiting[0])

    # Faults

    def _befall(self, process: Process, fault: Fault) -> None:
        self.recent.append(f"*** {fault} befalls {process.name}")
        what = fault.what
        if what == "kill":
            process.kill()
        elif what == "kill driver":
            if self.driver is not None:
                self.driver.kill()
        elif what == "power cut":
            self.power_cut()
        elif what == "disk full":
            self._full_until = self.count + fault.size
        elif what == "clock":
            self._skew_ns += fault.size * 10**9
        elif what == "memory lost":
            self.memory.lose()
        elif what == "memory full":
            self.memory.none_left = True
        elif what == "second driver":
            self.on_second()
        elif what == "second query":
            self.on_second_query()
        else:
            self.flags.add(what)

    def _freezes_at(self, path: str) -> bool:
        if "freeze at answer" in self.flags and "/.answer.parquet" in path.replace("/.table.", "/.answer."):
            return self.rnd.random() < 0.3  # at one of the steps in which it is replaced
        return "freeze" in self.flags

    def _freeze(self) -> None:
        """Stop the driver in the middle; it loses its locks, and goes on later as if nothing had been."""
        self.flags -= {"freeze", "freeze at answer"}
        assert self.driver is not None
        self.zombies.append(self.driver)
        locks = self.disk.locks
        for file in [file for file, held in locks.items() if held.process is self.driver]:
            del locks[file]
        self.pause()

    def power_cut(self) -> None:
        for process in self.processes:
            process.kill()
        self.disk.power_cut(self.rnd)
        self.memory.lose()
        self.on_power_cut()

    def _watch(self) -> None:
        try:
            for watch in self.watchers:
                watch()
        except Found as found:
            self.found = self.found or found
            raise

    def take(self, flag: str) -> bool:
        """Return whether a fault waits for this occasion; it is over then."""
        if flag in self.flags:
            self.flags.discard(flag)
            return True
        return False


def failure_of(fiber: Fiber) -> Any:
    """Return why a fiber has failed, if it did other than by its death."""
    return None if isinstance(fiber.failure, Crash) else fiber.failure
