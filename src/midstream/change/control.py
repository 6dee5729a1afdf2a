"""Control manager: what control elements and changes mean for the versions of a query, and what leaves of their output.

    change, control ──▶ elements ──▶ lives of the versions ──▶ who runs, who drains, what may leave
    results of all versions, drains that are over ──▶ further elements ──▶ merger ──▶ output

It decides where the output of all buckets meets; whoever runs the versions does as their lives say. What changes that
overlap mean is in decision 29: the latest one counts, and what earlier ones wait for is void.
"""

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from midstream.change.account import Account, LeftAt
from midstream.change.gatekeeper import Gatekeeper
from midstream.change.lifecycle import DRAINED, DRAINING, DSTOP, FSTART, ISTOP, RUNNING, Element, Life
from midstream.change.merger import Emission, Merger
from midstream.change.record import ABORTED, FINISHED, STOPPED, SUPERSEDED, UNDER_WAY, UNFINISHED, ChangeRecord
from midstream.change.reference import Reference
from midstream.change.request import ABORT, DELAYED_DRAIN, DRAIN, GRACEFUL, IMMEDIATE, QUERY_ORDER, ChangeRequest
from midstream.change.trigger import triggers_of
from midstream.change.under_way import Change
from midstream.model.batch import Results
from midstream.model.errors import PlanError
from midstream.model.time import FOREVER


class ControlManager:
    """The lives of all versions and the changes between them.

    Invariant: `lives[n]` is version n; elements take effect in the order of their positions; at most one change waits
    for something.
    """

    def __init__(self, at_us: int = -(2**63), decides: bool = True) -> None:
        self.decides = decides
        """First results and ended drains become elements here; else someone who sees all buckets reports them."""
        self.lives: dict[int, Life] = {}
        self.changes: list[Change] = []
        self.merger = Merger()
        self.appended: set[int] = set()
        self._given: dict[int, list[Results]] = {}
        self.drained: dict[tuple[int, int], tuple[int, int]] = {}
        """By version and position: since when nothing older is left, and when that was known."""
        self.audited: set[int] = set()
        """Versions that were stopped and run on, only to count what is lost."""
        self.decided: list[Element] = []
        """Elements the data have caused, for whoever has to learn of them."""
        self.last_left: LeftAt | None = None
        """The latest time at which something has left: event time, and the clock."""
        self.clock_us = at_us
        """How far time itself has come."""
        self.begin_version(1).apply(FSTART, at_us)

    @property
    def untouched(self) -> bool:
        """Return whether nothing has ever been asked of the query: its first version runs, and no other is known."""
        (first, *others) = self.lives.values()
        return not (others or self.changes) and len(first.elements) == 1

    def begin_version(self, number: int) -> Life:
        """Know a version, stopped."""
        return self.lives.setdefault(number, Life(number))

    @property
    def alive(self) -> list[Life]:
        """Return the versions that rows can still make answer, the newest last.

        In one of several buckets these are the same as in the others: one that is drained here lives until it is known
        that it is drained everywhere. What a change means depends on it, and how far buckets go.
        """
        alive = [life for life in self.lives.values() if self._lives(life)]
        if len(alive) > 1:
            alive.sort(key=lambda life: life.version)
        return alive

    def _lives(self, life: Life) -> bool:
        return life.alive or (life.drained_here and not self.decides)

    def _state(self, life: Life) -> str:
        return life.state if life.alive or not self._lives(life) else DRAINING

    @property
    def drains(self) -> bool:
        """Return whether a version drains, be it in another bucket."""
        return any(self._state(life) == DRAINING for life in self.lives.values())

    @property
    def newest(self) -> int:
        """Return the newest version that runs; when none does, the one that would start again."""
        return max((life.version for life in self.alive), default=self.latest)

    @property
    def latest(self) -> int:
        """Return the version that starts again when none runs, though an older one may outlive it."""
        aborted = {c.new for c in self.changes if c.record.state == ABORTED}
        return max({v for v, life in self.lives.items() if life.start_us is not None} - aborted)

    @property
    def open_changes(self) -> list[Change]:
        """Return the changes that are not over."""
        return [c for c in self.changes if c.open]

    @property
    def quiet(self) -> bool:
        """Return whether one version runs and nothing else is going on."""
        if self.untouched:
            return True
        alive = self.alive
        return (
            len(alive) == 1
            and alive[0].state == RUNNING
            and not self.merger.rows_held
            and not self.audited
            and not any(c.open or c.wants_reference or self._listens(c) for c in self.changes)
        )

    def _listens(self, change: Change) -> bool:
        """Return whether a change that is over waits for something to count: its new version can still answer."""
        return change.counts and self.lives[change.new].alive

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
        return self._stopper(life).position_us if version in self.audited else None

    def _stopper(self, life: Life) -> Change:
        return next(c for c in self.changes if c.new == life.stop_by)

    # Changes and control elements ------------------------------------------------------------------------------------

    def change(self, request: ChangeRequest, number: int, at_us: int, audit: bool) -> Change:
        """Let a change to version `number` take effect at a position."""
        self._void(SUPERSEDED, at_us)
        if (request.method, request.ordering) != (DRAIN, QUERY_ORDER) and request.method != IMMEDIATE:
            self._interleave(at_us)
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
        for element in change.method.begin(old, new, at_us):
            self._apply(element, change)
        change.waits_for_result = request.method in GRACEFUL and bool(old)
        change.waits_for_drain = not new.alive
        if audit and request.method == DELAYED_DRAIN and change.waits_for_drain:
            change.reference = Reference()
        record.started_us = new.start_us
        self._close_ended()
        return change

    def _void(self, state: str, at_us: int) -> None:
        """Give up what earlier changes wait for: the latest word counts."""
        for change in self.changes:
            change.end_reference()
            if change.pending:
                change.end(state, at_us)

    def _interleave(self, at_us: int) -> None:
        """Let what is held back for the sake of query order leave: from a position on stream order counts."""
        for change in self.open_changes:
            if change.new in self.appended:
                self._end_early(change, SUPERSEDED, at_us)
        self.appended.clear()

    def control(self, kind: str, at_us: int) -> None:
        """Let a control element for the whole query take effect at a position, whatever versions of it run."""
        if kind == ABORT:
            self._abort(at_us)
            return
        changing = self.open_changes[-1:]
        waiting = [c for c in changing if c.waits_for_drain]
        newest = waiting[-1].new if waiting and kind == FSTART else self.newest
        self._void(STOPPED, at_us)
        for change in self.open_changes if kind != DSTOP else ():
            self._end_early(change, STOPPED, at_us)
        for life in self.alive:
            if kind != FSTART:
                self._apply(Element(kind, life.version, at_us))
            elif life.version != newest:
                # The change under way becomes an immediate one.
                self._apply(Element(ISTOP, life.version, at_us), *changing)
        if kind == FSTART:
            for change in waiting:
                change.record.started_us = at_us
            self.drained = {(v, p): over for (v, p), over in self.drained.items() if v != newest or p > at_us}
            self.drained[newest, at_us] = (at_us, at_us)  # it holds nothing older, be it drained at once
            self._apply(Element(FSTART, newest, at_us))
        self._close_ended()

    def _end_early(self, change: Change, state: str, at_us: int) -> None:
        if change.new in self.appended:
            held = [triggers_of(r)[:, 0] for r in self.merger.held.get(change.new, ())]
            change.record.rows_held = sum(int((times < at_us).sum()) for times in held)
        change.end(state, at_us)

    def _abort(self, at_us: int) -> None:
        """Go back to the old version, where it still runs."""
        change = self.abortable()
        self._apply(Element(ISTOP, change.new, at_us))
        change.end(ABORTED, at_us)

    def abortable(self) -> Change:
        """Return the change that can be aborted, or refuse."""
        if not self.open_changes:
            raise PlanError("there is no change under way to abort")
        change = self.open_changes[-1]
        states = {self._state(self.lives[v]) for v in change.old}
        sentence = f"the change to version {change.new} cannot be aborted: "
        if states != {RUNNING}:
            state = "drains" if DRAINING in states else "has stopped"
            raise PlanError(
                f"{sentence}version {change.record.from_version} {state}, "
                "and what it does not begin now it would lack later; change back to its query instead"
            )
        if len(change.old) > 1:
            older = " and ".join(map(str, change.old))
            raise PlanError(
                f"{sentence}it has superseded an earlier one, and versions {older} would both go on; "
                "change to the query that is wanted instead"
            )
        return change

    def _apply(self, element: Element, by: Change | None = None) -> None:
        life = self.lives[element.version]
        if element.kind == ISTOP and life.alive and by is not None:
            life.stop_by = by.new
            if by.audit:
                self.audited.add(life.version)
        life.apply(element.kind, element.at_us)

    # What the data cause ---------------------------------------------------------------------------------------

    def see(self, version: int, results: Sequence[Results]) -> None:
        """Take what a version gives in this round."""
        self._given.setdefault(version, []).extend(r for r in results if len(r))

    def see_drained(self, version: int, position_us: int, over_us: int, known_us: int) -> None:
        """Note since when nothing from before a position is left of a version, and from when on that was known."""
        self.drained[version, position_us] = (over_us, known_us)

    def element(self, element: Element) -> None:
        """Let an element take effect that the data have caused: a first result, or the end of a drain."""
        life = self.lives[element.version]
        if element.kind == FSTART and life.start_us == element.at_us:
            return
        waiting = [c for c in self.changes if c.waits_for_result and element.version in c.old]
        by = waiting[-1] if waiting else self._changed_over(element)
        drain_us = life.drain_us
        self._apply(element, by if element.kind == ISTOP else None)
        life.stopped_by_result |= element.kind == ISTOP
        life.drained_by_result |= element.kind == DSTOP and life.drain_us != drain_us
        self.decided.append(element)
        for change in self.open_changes:
            if element.kind == FSTART and change.new == element.version:
                change.waits_for_drain = False
                change.record.started_us = element.at_us
            elif not self.decides and not any(self.lives[v].state == RUNNING for v in change.old):
                change.waits_for_result = False

    def _changed_over(self, element: Element) -> Change | None:
        """Return the change that an element belongs to which becomes known after another one took effect."""
        found = [c for c in self.changes if element.version in c.old and c.position_us <= element.at_us]
        return found[-1] if found else None

    def follow(self) -> None:
        """End a round of a bucket whose output is merged elsewhere: only the lives matter here."""
        self._pass(FOREVER)
        self._given = {}
        self._close_ended()
        self.decided = []  # those who have to learn of it learn it from where all output meets

    def end_reference(self, new: int) -> None:
        """Compare a version no further with what it would have given, started at once."""
        for change in self.changes:
            if change.new == new:
                change.end_reference()

    def see_reference(
        self, change: Change, expected: Sequence[Results], given: Sequence[Results], open_us: int
    ) -> None:
        """Compare what the new version of a delayed drain gives with what it would have given, started at once."""
        if change.reference is not None:
            change.account.lose(change.reference.compare(expected, given, open_us))

    def settle(self, now_us: int, known_us: int = FOREVER, everything: bool = False) -> list[Emission]:
        """End a round up to a time: return what leaves, in order. `everything` when nothing more will come.

        Drains that are known to be over only after `known_us` are not over yet.
        """
        self._pass(known_us)
        given = {}
        for version, results in sorted(self._given.items()):
            given[version] = [self._let_out(version, r) for r in results]
        self._given = {}
        counting = [c for c in self.changes if c.counts]
        self._close_ended()
        emissions = self.merger.merge(given, self.appended, {life.version for life in self.alive}, everything)
        for change in self.changes:
            if change.open and change.new in self.appended:
                change.record.rows_held = sum(len(r) for r in self.merger.held.get(change.new, ()))
        for change in counting:
            for emission in emissions:
                change.account.on_emission(emission)
            if not change.open:
                change.account.new_prints.clear()
        for emission in emissions:
            latest_us = int(emission.triggers[:, 0].max())
            if self.last_left is not None:
                latest_us = max(latest_us, self.last_left[0])
            self.last_left = (latest_us, time.perf_counter())
        watched = {v for v, life in self.lives.items() if life.alive} | self.audited
        self.drained = {key: over for key, over in self.drained.items() if key[0] in watched}
        return emissions

    def _pass(self, known_us: int) -> None:
        """Let first results and ended drains take effect, in the order of their times."""
        while True:
            over = [(at_us, life) for life in self.alive if (at_us := self._over_us(life, known_us)) is not None]
            first = [(at_us, c) for c in self.changes if (at_us := self._first_us(c)) is not None]
            if over and (not first or min(at_us for at_us, _ in over) < first[0][0]):
                self._end_drain(*min(over, key=lambda pair: pair[0]))
            elif first:
                self._first_result(*first[0])
            else:
                break
        for version in sorted(self.audited):
            watched_us = self.watched_us(version)
            if watched_us is not None and self._drained_from(version, watched_us)[1] <= known_us:
                self.audited.discard(version)

    def _over_us(self, life: Life, known_us: int) -> int | None:
        """Return since when a drain is over, where that is known."""
        if life.state != DRAINING or life.drain_us is None:
            return None
        over_us, since_us = self._drained_from(life.version, life.drain_us)
        return over_us if since_us <= known_us else None

    def _drained_from(self, version: int, position_us: int) -> tuple[int, int]:
        """Return since when nothing from before a position is left, and from when on that was known, be it never."""
        # Whoever has learned late of a drain may have watched for a later position.
        found = [(at_us, over) for (v, at_us), over in self.drained.items() if v == version and at_us >= position_us]
        return min(found)[1] if found else (0, FOREVER + 1)

    def _end_drain(self, over_us: int, life: Life) -> None:
        self._apply(Element(DRAINED, life.version, over_us))
        for change in self.open_changes if self.decides else ():
            old = [self.lives[v] for v in change.old]
            if change.waits_for_drain and not any(o.alive for o in old):
                start_us = max([change.position_us, *(o.end_us for o in old)])
                for element in change.method.on_drained(old, self.lives[change.new], start_us):
                    self.element(element)

    def _first_result(self, at_us: int, change: Change) -> None:
        """Let the first result of a new version stop or drain the old ones that wait for it."""
        at_us = max(at_us, change.position_us)
        lives = [self.lives[v] for v in change.old]
        for element in change.method.on_first_result([v for v in lives if v.alive], self.lives[change.new], at_us):
            self.element(element)
        change.waits_for_result = False
        change.account.drained_from_us = at_us

    def _first_us(self, change: Change) -> int | None:
        """Return when the new version that is waited for first answers in this round."""
        if not (self.decides and change.waits_for_result):
            return None
        firsts = []
        for results in self._given.get(change.new, []):
            keep = self._may_leave(change.new, results)
            times = triggers_of(results)[:, 0]
            firsts += (times if keep is None else times[keep])[:1].tolist()
        return min(firsts, default=None)

    def _may_leave(self, version: int, results: Results) -> npt.NDArray[np.bool_] | None:
        oldest_us = None if results.lineage is None else results.lineage.oldest_us
        return Gatekeeper(self.lives[version]).lets_out(results.order, oldest_us, len(results))

    def _let_out(self, version: int, results: Results) -> Results:
        """Return the results of a version that may leave; count those that the change which stopped it loses."""
        keep = self._may_leave(version, results)
        if keep is None or keep.all():
            return results
        life = self.lives[version]
        change = None if life.stop_by is None else self._stopper(life)
        if change is not None and change.audit and results.lineage is not None:
            # What a version that was already draining did not owe is not lost.
            owed_us = min(change.position_us, FOREVER if life.drain_us is None else life.drain_us)
            change.account.lose(int((~keep & (results.lineage.oldest_us < owed_us)).sum()))
        return results.where(keep)

    def _close_ended(self) -> None:
        for change in self.changes:
            old = [self.lives[v] for v in change.old]
            new = self.lives[change.new]
            if not change.open or change.pending or any(map(self._lives, old)):
                continue
            first_us = change.account.drained_from_us
            ends = [change.position_us, *(life.end_us for life in old)]
            ends += [new.start_us] if new.start_us is not None else []
            ends += [first_us] if first_us != FOREVER else []
            change.end(FINISHED, max(ends))

    def finish(self) -> None:
        """Say of changes that are not over that they never will be, and complete all records."""
        for change in self.open_changes:
            change.record.state = UNFINISHED
            change.note_overlap(self.clock_us)
        for change in self.changes:
            change.end_reference()
            change.account.close()

    def records(self) -> list[ChangeRecord]:
        """Return what became of each change."""
        for change in self.changes:
            change.account.close()
        return [c.record for c in self.changes]
