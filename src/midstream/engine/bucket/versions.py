"""The versions of a query in one bucket: who takes rows, who enters and leaves, who starts anew.

    lives of the versions (change/lifecycle.py) ──▶ versions taken up ──▶ rows of the micro-batch go to each of them

A version is taken up when it is wanted and left when it is over; what is written down of it is forgotten then. The
number of a reference, a version that runs only to be counted, is negative.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from midstream.change.lifecycle import FSTART
from midstream.change.request import GRACEFUL_DRAIN, ChangeRequest, ControlRequest
from midstream.engine.bucket.durable import DurableRows
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.bucket.state import BucketState, VersionState
from midstream.engine.bucket.store import Store
from midstream.engine.bucket.version import OperatorMemory, VersionInBucket
from midstream.engine.rows.mail import Message
from midstream.engine.rows.packed import Packed
from midstream.migrate.request import MigrationRequest
from midstream.model.time import NEVER


class BucketVersions:
    """The versions taken up in a bucket. Invariant: those of `open` are in `ran`, with what left of them so far."""

    def __init__(
        self, spec: BucketSpec, label: int, state: BucketState, store: Store | None, memory: OperatorMemory | None
    ) -> None:
        run = replace(spec.run, place=spec.labels.index(label), buckets=len(spec.labels))
        self.spec = replace(spec, run=run)
        self.state = state
        self.control = state.control
        self.open: dict[int, VersionInBucket] = {}
        self.ran: list[VersionInBucket] = []
        """The versions that have run in this micro-batch, oldest first; also those that are over."""
        self._first = label == spec.labels[0]
        self._store = store
        self._memory = memory
        self._packed = Packed()
        self.before: dict[int, int] = {}
        """The largest time per stream position that micro-batches before this one have shown."""
        self._traced = False

    def begin_batch(self, packed: Packed, before: dict[int, int]) -> None:
        """Let the versions have the rows of a micro-batch; see `before`."""
        self._packed, self.before = packed, before
        self.ran = list(self.open.values())
        for version in self.ran:
            version.begin_batch()
            self._take_in(version)

    def carry_over(self, packed: Packed) -> None:
        """Let versions that begin only now have the rows that came before buckets had to meet."""
        packed.low = packed.low or self._packed.low
        for (number, rank), parts in self._packed.rows.items():
            if number not in self.open:
                packed.rows.setdefault((number, rank), parts)

    def wanted(self) -> list[int]:
        """Return the versions that take rows: those that live, are audited or wait, and references."""
        control, waiting = self.control, self.waiting()
        lives = [n for n in control.lives if n in waiting or self.runs(n)]
        return [*lives, *(-c.new for c in control.changes if c.wants_reference)]

    def waiting(self) -> list[int]:
        """Return versions that keep their rows until they may start."""
        due = [number for number, _ in self._due() if number in self.state.versions]
        return [*(c.new for c in self.control.open_changes if c.waits_for_drain), *due]

    def _due(self) -> list[tuple[int, int]]:
        """Return the versions of changes that are to come, or that are to start anew, and their positions."""
        found, number = list[tuple[int, int]](), self.state.next_version
        for due in self.state.due:
            if isinstance(due, ControlRequest) and due.element == FSTART:
                found.append((self.control.newest, NEVER if due.at_us is None else due.at_us))
            if isinstance(due, ChangeRequest):
                found.append((due.version or number, NEVER if due.at_us is None else due.at_us))
                number = found[-1][0] + 1
        return found

    def wait_for_due(self) -> None:
        """Let versions of changes that have not begun yet keep the rows from their positions on.

        So does one that is over and is to start anew.
        """
        reached_us = self.state.progress.latest_us
        for number, at_us in self._due():
            if at_us <= reached_us and number not in self.open:
                self.control.begin_version(number)
                self._enter(number).intake.start_at(at_us)

    def runs(self, number: int) -> bool:
        """Return whether rows go through a version: it lives, or what it loses or would have emitted is counted."""
        if number < 0:
            return any(c.new == -number and c.wants_reference for c in self.control.changes)
        return self.control.lives[number].alive or self.control.audits(number)

    @property
    def newest(self) -> VersionInBucket | None:
        """Return the newest version that lives."""
        return max(self._living(), key=lambda version: version.number, default=None)

    def migrate(self, request: MigrationRequest, plan: Any | None = None, row: str = "") -> None:
        """Let the newest version migrate, and its reference, which is to answer at the same hops."""
        newest = self.newest
        assert newest is not None, "something runs"
        for number in (newest.number, -newest.number):
            if number in self.open:
                self.open[number].migrate(request, plan, row)

    def _living(self) -> list[VersionInBucket]:
        return [v for n, v in self.open.items() if n > 0 and self.control.lives[n].alive]

    def receive(self, mail: Sequence[Message]) -> None:
        """Let the newest version have what other buckets have sent to it."""
        if mail and self.newest is not None:
            self.newest.run.receive(mail)

    def take_mail(self) -> list[Message]:
        """Return, once, what versions send to other buckets."""
        return [message for version in self.ran for message in version.run.take_mail()]

    def holder(self) -> dict[str, Any] | None:
        """Return which stream of the newest version holds the others back, and by how much event time."""
        newest = self.newest
        if newest is None or self.spec.recorded:
            return None
        names = {s.position: s.stream.name for s in newest.intake.sources}
        found = self.state.progress.holder(names, self.spec.timings)
        return None if found is None else {"stream": names[found[0]], "lag_us": found[1], "silent_us": found[2]}

    def seen(self) -> dict[str, int]:
        """Return the largest time of each stream of the newest version."""
        high = self.state.progress.high
        sources = [] if self.newest is None else self.newest.intake.sources
        return {s.stream.name: high[s.position] for s in sources if s.position in high}

    def silent(self) -> list[str]:
        """Return the streams of the newest version that nobody waits for."""
        silent = self.state.progress.silent(self.spec.timings)
        newest = self.newest if silent else None
        return sorted({s.stream.name for s in newest.intake.sources if s.position in silent}) if newest else []

    def enter_wanted(self) -> list[VersionInBucket]:
        """Take up the versions that are wanted and not there; return them."""
        return [self._enter(number) for number in self.wanted() if number not in self.open]

    def _enter(self, number: int) -> VersionInBucket:
        state, start_us = self.state, self.start_us(number)
        new = number not in state.versions
        if new:
            state.versions[number] = VersionState(batches=state.batches)
            if start_us is not None:
                state.versions[number].released_us = start_us
        version = VersionInBucket(number, self.spec, self._first, state.versions[number], self._store, self._memory)
        if new and start_us is not None:
            version.run.begin_at(start_us)
        version.trace(self._traced)
        if new and number < 0 and start_us is not None:
            version.intake.share(self.open[-number].intake, start_us)
        else:
            self._take_in(version)
        self.open[number] = version
        self.ran.append(version)
        self.merge_output()
        return version

    def merge_output(self) -> None:
        """From the first change on results of all versions leave in max order: a migration holds none back."""
        for version in self.open.values() if self.control.changes else ():
            version.run.merge_output()

    def start_us(self, number: int) -> int | None:
        """Return from where a version takes rows; None: from the first one on."""
        if number < 0:
            return next(c.position_us for c in self.control.changes if c.new == -number)
        start_us = self.control.lives[number].start_us
        return None if start_us == NEVER else start_us

    def _take_in(self, version: VersionInBucket) -> None:
        """Let a version have the rows of this micro-batch."""
        packed, intake, start_us = self._packed, version.intake, self.start_us(version.number)
        intake.take_in(packed, abs(version.number), start_us, self.before)
        if version.number > 0 and self.control.lives[version.number].start_us == NEVER:
            # The first row of the query, in whatever bucket, of those that are not late.
            first_us = intake.first_us if self.spec.alone else intake.first_anywhere_us(packed.low, self.before)
            if first_us is not None:
                version.run.begin_at(first_us)

    def trace(self, on: bool) -> None:
        """Let results say from now on what brought them and what they depend on; or not."""
        self._traced = on
        for version in self.open.values():
            version.trace(on)

    def watch(self) -> None:
        """Let versions that drain, or whose losses are counted, look out for the end of what is old."""
        if self.control.untouched:
            return
        for number, version in self.open.items():
            if number > 0:
                watched_us = self.control.watched_us(number)
                version.run.drains_later = self._drains_later(number)
            else:
                watched_us = next(c.record.started_us for c in self.control.changes if c.new == -number)
            if watched_us is not None:
                version.watch(watched_us)

    def _drains_later(self, number: int) -> bool:
        """Return whether others may say that a version drains since a first result in some bucket."""
        changes = [c for c in self.control.changes if c.request.method == GRACEFUL_DRAIN and number in c.old]
        return bool(changes) and not self.control.decides

    def start_waiting(self) -> None:
        """Let versions that had to wait for a drain begin with the rows from their start on."""
        for number, version in self.open.items():
            if number < 0:
                continue
            life, state = self.control.lives[number], version.state
            if life.alive and life.start_us is not None and state.released_us < life.start_us:
                state.released_us = life.start_us
                version.intake.start_at(life.start_us)
                version.run.begin_at(life.start_us)

    def leave_ended(self) -> None:
        """Release versions that are over."""
        for number in [n for n in self.open if not self.runs(n) and n not in self.waiting()]:
            stop_us = self.control.lives[number].stop_us if number > 0 else None
            if stop_us is None or self.open[number].state.released_us >= stop_us:
                over = self.open.pop(number)
                over.supersede("the version is over")
                if number > 0:  # it may be started anew in this micro-batch
                    for rank, rows in over.intake.give_back().items():
                        self._packed.rows[number, rank] = [(0, rows)]

    @property
    def memory_trouble(self) -> str:
        """Return why operators found no room in the memory of this host."""
        return "" if self._memory is None else self._memory.trouble

    def close(self, release: bool) -> bool:
        """Keep what must last of each version, forget the others; see `VersionInBucket.close`."""
        closed = [version.close(release, self._packed.last) for version in self.open.values()]
        for number in [n for n in self.state.versions if n not in self.open]:
            self._forget(number)
        return all(closed)

    def _forget(self, number: int) -> None:
        """Forget what is written down of a version."""
        state = self.state.versions.pop(number, None)
        if state is not None and self._store is not None:
            DurableRows(self._store, state, number).forget()
        if self._memory is not None:
            self._memory.forget(number)

    def restart(self, number: int) -> None:
        """Forget what a version holds: it starts anew, with the rows that wait."""
        before = self.open.pop(number, None)
        if before is not None:
            before.intake.read_all()
        self._forget(number)
        if before is not None:
            fresh = self._enter(number)
            self.ran.remove(fresh)
            self.ran[self.ran.index(before)] = fresh
            fresh.take_over(before)
            fresh.intake.start_at(self.start_us(number) or NEVER)
