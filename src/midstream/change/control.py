"""Control manager: what control elements and changes mean for the versions of a query, and what leaves of their output.

    change, control ──▶ elements ──▶ lives of the versions ──▶ who runs, who drains, what may leave
    results of all versions, drains that are over ──▶ further elements ──▶ merger ──▶ output

It decides where the output of all buckets meets; whoever runs the versions does as their lives say.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from midstream.change.account import Account
from midstream.change.delayed_drain import DelayedDrainChange
from midstream.change.drain import DrainChange
from midstream.change.gatekeeper import Gatekeeper
from midstream.change.graceful_drain import GracefulDrainChange
from midstream.change.graceful_immediate import GracefulImmediateChange
from midstream.change.immediate import ImmediateChange
from midstream.change.lifecycle import DRAINED, DRAINING, FSTART, ISTOP, RUNNING, Element, Life
from midstream.change.merger import Emission, Merger, triggers_of
from midstream.change.method import Method
from midstream.change.record import (
    ABORTED,
    FINISHED,
    OPEN,
    STOPPED,
    SUPERSEDED,
    UNDER_WAY,
    UNFINISHED,
    ChangeRecord,
)
from midstream.change.request import (
    ABORT,
    DELAYED_DRAIN,
    DRAIN,
    GRACEFUL_DRAIN,
    GRACEFUL_IMMEDIATE,
    IMMEDIATE,
    QUERY_ORDER,
    ChangeRequest,
)
from midstream.model.batch import Results
from midstream.model.errors import PlanError

METHOD_OF: dict[str, Method] = {
    IMMEDIATE: ImmediateChange(),
    DELAYED_DRAIN: DelayedDrainChange(),
    DRAIN: DrainChange(),
    GRACEFUL_IMMEDIATE: GracefulImmediateChange(),
    GRACEFUL_DRAIN: GracefulDrainChange(),
}
GRACEFUL = (GRACEFUL_IMMEDIATE, GRACEFUL_DRAIN)


@dataclass
class Change:
    """A change from the moment it takes effect."""

    request: ChangeRequest
    record: ChangeRecord
    old: tuple[int, ...]
    new: int
    position_us: int
    account: Account
    audit: bool
    began: float = field(default_factory=time.perf_counter)
    waits_for_result: bool = False
    waits_for_drain: bool = False
    reference: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Of a delayed drain that is audited: the oldest rows of what the new version would have given, started at once."""
    reference_over: bool = False

    @property
    def wants_reference(self) -> bool:
        """Return whether the new version is to run from the position on, only to be counted."""
        return self.audit and self.request.method == DELAYED_DRAIN and not self.reference_over


class ControlManager:
    """The lives of all versions and the changes between them.

    Invariant: `lives[n]` is version n; elements take effect in the order of their positions.
    """

    def __init__(self, at_us: int = -(2**63), decides: bool = True) -> None:
        self.decides = decides
        """First results and ended drains become elements here; else someone who sees all buckets reports them."""
        self.lives: dict[int, Life] = {}
        self.changes: list[Change] = []
        self.merger = Merger()
        self.appended: set[int] = set()
        self._given: dict[int, list[Results]] = {}
        self.audited: set[int] = set()
        """Versions that were stopped and run on, only to count what is lost."""
        self.decided: list[Element] = []
        """Elements the data have brought about, for whoever has to hear of them."""
        self.last_left: tuple[int, float] | None = None
        """When something last left: event time, and the clock."""
        self.now_us = at_us
        self.begin_version(1).apply(FSTART, at_us)

    def begin_version(self, number: int) -> Life:
        """Know a version, stopped."""
        return self.lives.setdefault(number, Life(number))

    @property
    def alive(self) -> list[Life]:
        """Return the versions that rows can still make answer."""
        return [life for life in self.lives.values() if life.alive]

    @property
    def newest(self) -> int:
        """Return the newest version that runs; when none does, the one that would start again."""
        given_up = {c.new for c in self.changes if c.record.state in (ABORTED, SUPERSEDED)}
        return max((life.version for life in self.alive), default=max(set(self.lives) - given_up))

    @property
    def open_changes(self) -> list[Change]:
        """Return the changes that are not over."""
        return [c for c in self.changes if c.record.state in OPEN]

    @property
    def quiet(self) -> bool:
        """Return whether one version runs and nothing else is going on."""
        alive = self.alive
        one = len(alive) == 1 and alive[0].state == RUNNING
        unanswered = any(c.record.state == FINISHED and c.record.first_result_us is None for c in self.changes[-1:])
        return (
            one
            and not self.open_changes
            and not unanswered
            and not self.merger.rows_held
            and not self.audited
            and not self._references
        )

    @property
    def _references(self) -> bool:
        return any(c.wants_reference for c in self.changes)

    @property
    def phase(self) -> str:
        """Return what is going on, in a word or two."""
        if self.open_changes:
            request = self.open_changes[-1].request
            return f"changing ({request.method}{f'/{request.ordering}' if request.method == DRAIN else ''})"
        states = {life.state for life in self.alive}
        return "stopped" if not states else "draining" if RUNNING not in states else "steady"

    def audits(self, version: int) -> bool:
        """Return whether a version that was stopped is to run on, only to count what is lost."""
        return version in self.audited

    def watched_us(self, version: int) -> int | None:
        """Return the position whose older rows are watched for in a version; None: nobody asks."""
        life = self.lives[version]
        if life.drain_us is not None:
            return life.drain_us
        if version in self.audited:
            return min(c.position_us for c in self.changes if c.audit and version in c.old)
        return None

    def change(self, request: ChangeRequest, number: int, at_us: int, audit: bool) -> Change:
        """Let a change to version `number` take effect at a position."""
        for earlier in self.open_changes:
            if earlier.waits_for_drain:
                self._end(earlier, SUPERSEDED, at_us)
        old, new = self.alive, self.begin_version(number)
        record = ChangeRecord(
            request.identity, request.sql, request.method, request.ordering if request.method == DRAIN else None,
            max((life.version for life in old), default=number - 1), number, request.at_us, UNDER_WAY,
        )  # fmt: skip
        record.position_us = at_us
        numbers = tuple(life.version for life in old)
        account = Account(record, numbers, number, at_us, self.last_left)
        change = Change(request, record, numbers, number, at_us, account, audit)
        if audit:
            record.loss = 0
        self.changes.append(change)
        if request.ordering == QUERY_ORDER:
            self.appended.add(number)
        for element in METHOD_OF[request.method].begin(old, new, at_us):
            self._apply(element)
        change.waits_for_result = request.method in GRACEFUL and bool(old)
        change.waits_for_drain = not new.alive
        record.started_us = new.start_us
        self._close_ended()
        return change

    def control(self, kind: str, at_us: int) -> None:
        """Let a control element for the whole query take effect at a position, whatever versions of it run."""
        if kind == ABORT:
            self._abort(at_us)
            return
        waiting = [c for c in self.open_changes if c.waits_for_drain]
        newest = self.newest
        if kind == FSTART and waiting:
            newest = waiting[-1].new
            waiting[-1].record.started_us = at_us
        for change in self.open_changes:
            change.waits_for_result = False
        for change in waiting:
            self._end(change, STOPPED, at_us)
        for life in self.alive:
            if kind != FSTART:
                self._apply(Element(kind, life.version, at_us))
            elif life.version != newest:
                self._apply(Element(ISTOP, life.version, at_us))
        if kind == FSTART:
            self._apply(Element(FSTART, newest, at_us))
        for change in self.open_changes:
            if kind == FSTART or not any(self.lives[v].alive for v in (*change.old, change.new)):
                self._end(change, STOPPED, at_us)

    def _abort(self, at_us: int) -> None:
        """Go back to the old version, where it still runs."""
        change = self.abortable()
        self._apply(Element(ISTOP, change.new, at_us))
        change.waits_for_result = False
        self._end(change, ABORTED, at_us)

    def abortable(self) -> Change:
        """Return the change that can be aborted, or refuse."""
        if not self.open_changes:
            raise PlanError("there is no change under way to abort")
        change = self.open_changes[-1]
        states = {self.lives[v].state for v in change.old}
        if states != {RUNNING}:
            state = "drains" if DRAINING in states else "has stopped"
            raise PlanError(
                f"the change to version {change.new} cannot be aborted: version {change.record.from_version} {state}, "
                "and what it does not begin now it would lack later; change back to its query instead"
            )
        return change

    def _apply(self, element: Element, by_result: bool = False) -> None:
        life = self.lives[element.version]
        if element.kind == ISTOP and life.alive and any(c.audit and life.version in c.old for c in self.changes):
            self.audited.add(life.version)
        life.apply(element.kind, element.at_us)
        if element.kind == ISTOP and by_result:
            life.stopped_by_result = True

    def see(self, version: int, results: Sequence[Results], over_us: int | None = None) -> None:
        """Take what a version gives in this round; `over_us` says its drain is over, from that event time on."""
        self._given.setdefault(version, []).extend(r for r in results if len(r))
        life = self.lives[version]
        if over_us is None:
            return
        self.audited.discard(version)
        if life.state == DRAINING:
            self._apply(Element(DRAINED, version, over_us))
            for change in self.open_changes if self.decides else ():
                old = [self.lives[v] for v in change.old]
                if change.waits_for_drain and not any(o.alive for o in old):
                    start_us = max([over_us, change.position_us])
                    for element in METHOD_OF[change.request.method].on_drained(old, self.lives[change.new], start_us):
                        self.element(element)

    def element(self, element: Element) -> None:
        """Let an element take effect that the data have brought about: a first result, or the end of a drain."""
        life = self.lives[element.version]
        if element.kind == FSTART and life.start_us == element.at_us:
            return
        self._apply(element, by_result=True)
        self.decided.append(element)
        for change in self.open_changes:
            if element.kind == FSTART and change.new == element.version:
                change.waits_for_drain = False
                change.record.started_us = element.at_us
            elif not self.decides and not any(self.lives[v].state == RUNNING for v in change.old):
                change.waits_for_result = False

    def follow(self) -> None:
        """End a round of a bucket whose output is merged elsewhere: only the lives matter here."""
        if self.decides:
            self._first_results()
        self._given = {}
        self._close_ended()

    def see_reference(self, change: Change, results: Sequence[Results], over: bool) -> None:
        """Take what the new version of a delayed drain would have given had it been started at once."""
        change.reference += [r.lineage.oldest_us for r in results if len(r) and r.lineage is not None]
        if over:
            change.reference_over = True
            started_us = change.record.started_us
            for oldest_us in change.reference:
                lost = len(oldest_us) if started_us is None else int((oldest_us < started_us).sum())
                change.account.lose(lost)
            change.reference = []

    def settle(self, now_us: int, everything: bool = False) -> list[Emission]:
        """End a round: return what leaves, in order. `everything` when nothing more will come."""
        self.now_us = max(self.now_us, now_us)
        self._first_results()
        given = {}
        for version, results in sorted(self._given.items()):
            given[version] = [self._let_out(version, r) for r in results]
        self._given = {}
        emissions = self.merger.merge(given, self.appended, {life.version for life in self.alive}, everything)
        for change in self.changes:
            record = change.record
            if record.state in OPEN:
                record.rows_held = max(record.rows_held, self.merger.rows_held)
            if record.state in OPEN or (record.state == FINISHED and record.first_result_us is None):
                for emission in emissions:
                    change.account.on_emission(emission)
        for emission in emissions:
            self.last_left = (int(now_us if emission.held else emission.triggers[-1, 0]), time.perf_counter())
        self._close_ended()
        return emissions

    def _first_results(self) -> None:
        """Let the first results of new versions stop the old ones that wait for them, one after the other."""
        while found := [(at_us, c) for c in self.open_changes if (at_us := self._first_us(c)) is not None]:
            at_us, change = min(found, key=lambda pair: pair[0])
            change.waits_for_result = False
            at_us = max(at_us, change.position_us)
            lives = [self.lives[v] for v in change.old]
            method = METHOD_OF[change.request.method]
            for element in method.on_first_result([v for v in lives if v.alive], self.lives[change.new], at_us):
                self.element(element)
            if change.request.method == GRACEFUL_IMMEDIATE:
                for life in lives:
                    if not life.alive and life.over_after(at_us):
                        life.cut_short(at_us)

    def _first_us(self, change: Change) -> int | None:
        """Return when the new version that is waited for first answers in this round."""
        firsts = []
        for results in self._given.get(change.new, []) if change.waits_for_result else ():
            keep = self._may_leave(change.new, results)
            times = triggers_of(results)[:, 0]
            firsts += (times if keep is None else times[keep])[:1].tolist()
        return min(firsts, default=None)

    def _may_leave(self, version: int, results: Results) -> npt.NDArray[np.bool_] | None:
        oldest_us = None if results.lineage is None else results.lineage.oldest_us
        return Gatekeeper(self.lives[version]).lets_out(results.order, oldest_us, len(results))

    def _let_out(self, version: int, results: Results) -> Results:
        """Return the results of a version that may leave; count those of the reference that may not."""
        keep = self._may_leave(version, results)
        if keep is None or keep.all():
            return results
        assert results.order is not None
        assert results.lineage is not None
        life = self.lives[version]
        for change in self.changes:
            # What a version that was already draining did not owe is not lost.
            if change.audit and version in change.old and life.stop_us is not None:
                position_us = change.position_us if life.drain_us is None else min(change.position_us, life.drain_us)
                change.account.lose(int((~keep & (results.lineage.oldest_us < position_us)).sum()))
                break
        return results.where(keep)

    def _close_ended(self) -> None:
        for change in self.open_changes:
            new = self.lives[change.new]
            ended = not change.waits_for_result and not change.waits_for_drain
            if ended and not any(self.lives[v].alive for v in change.old):
                ends = [e.at_us for v in change.old for e in self.lives[v].elements[-1:]]
                starts = [new.start_us] if new.start_us is not None else []
                if change.request.method == GRACEFUL_DRAIN and change.account.after_old_us is not None:
                    ends.append(change.account.after_old_us)
                self._end(change, FINISHED, max([change.position_us, *ends, *starts]))

    def _end(self, change: Change, state: str, at_us: int) -> None:
        record = change.record
        record.state, record.ended_us = state, at_us
        change.waits_for_drain = change.waits_for_result = False
        if record.started_us is not None:
            record.two_versions_us = max(0, at_us - record.started_us)
            record.two_versions_ms = (time.perf_counter() - change.began) * 1000 if record.two_versions_us else 0.0
        if change.wants_reference and record.started_us is None:
            change.reference_over = True

    def finish(self) -> None:
        """Say of changes that are not over that they never will be, and complete all records."""
        for change in self.open_changes:
            record = change.record
            record.state = UNFINISHED
            if record.started_us is not None:
                record.two_versions_us = max(0, self.now_us - record.started_us)
                record.two_versions_ms = (time.perf_counter() - change.began) * 1000
        for change in self.changes:
            if change.wants_reference:
                self.see_reference(change, (), True)
            change.account.close()

    def records(self) -> list[ChangeRecord]:
        """Return what became of each change."""
        for change in self.changes:
            change.account.close()
        return [c.record for c in self.changes]
