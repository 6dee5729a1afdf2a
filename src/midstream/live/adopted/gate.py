"""Gate: answers of versions go in, those of one version per segment come out; deployments are what it goes through.

    version 1 ──▶ answers 1, 2, 3 ... ─┐
                                       ├──▶ gate: turn of version 1 up to p, of version 2 from there on ──▶ sink
    version 2 ──▶ answers 1, 2, 3 ... ─┘

A deployment is prepared, catches up, compares if asked to, switches, and is done when the old version is given up.
Every step is one write of the gate log, so a crash leaves it before or after. A version that fails before the switch is
given up and nothing else has happened; after it, as long as the old one lives, the gate goes back to that.

State: the gate log; how far each version was when it last got further.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from midstream.change.schema import schema_change
from midstream.engine.control.controls import CONTROL, STOP
from midstream.engine.world import World
from midstream.live.adopted.compare import difference
from midstream.live.adopted.fleet import Fleet
from midstream.live.adopted.gate_log import (
    BEFORE_SWITCH,
    CATCHING_UP,
    COMPARING,
    DONE,
    OPEN,
    PREPARED,
    REFUSED,
    ROLLED_BACK,
    SWITCHED,
    Deployment,
    GateLog,
    GateState,
    VersionEntry,
)
from midstream.live.adopted.history import check_request, has_passed, history_us
from midstream.live.adopted.journal import Journal
from midstream.live.adopted.record import record_of
from midstream.live.adopted.request import (
    IMMEDIATE,
    MOVING_STATE,
    NO,
    PARALLEL_TRACK,
    REFUSE,
    DeployRequest,
)
from midstream.live.adopted.version_folder import VersionFolder
from midstream.live.control_log import ControlLog
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach

SETTLING = 2
"""Segments until what a new version emits of windows that closed before it began is over: Spark lets time go on with
the segment after, and takes late rows by the one before that."""
BEHIND = 2
"""A version that is so few segments behind has caught up."""
DEPLOY, ROLLBACK = "deploy", "rollback"


class Gate:
    """The gate of one query. Invariant: every segment leaves once, in order, as one version has answered it."""

    def __init__(
        self,
        world: World,
        log: GateLog,
        controls: ControlLog,
        journal: Journal,
        fleet: Fleet,
        publish: Callable[[pa.Table, int], None],
        note: Callable[[str, dict[str, Any]], None],
        keep_us: int | None = None,
    ) -> None:
        self._world, self._log, self._controls = world, log, controls
        self.journal, self._fleet = journal, fleet
        self._publish_rows, self._note = publish, note
        self._keep_us = keep_us
        self.failure: str | None = None
        self.stop_asked = False
        self.state = log.read() or GateState(journal.first - 1, (), (), 0)
        self._moved: dict[int, tuple[int, float]] = {}
        """How far a version was, and when it got there."""
        self._noted: tuple[str, str] | None = None
        self._hold: int | None = None
        """Nothing after this segment leaves, until comparing has got there."""

    def begin(self, build: str) -> None:
        """Take in the first version, or go on with those there are; control rows that were read stay read."""
        if not self.state.turns:
            first = self.state.published + 1
            entry = VersionEntry(1, build, first)
            self._write(replace(self.state, turns=((1, first),), versions=(entry,), made=1))
        self._fleet.keep_only({entry.number for entry in self.state.versions})
        for entry in self.state.versions:
            self._fleet.start(entry)
        self._answering = self._folder(self.state.active)

    def step(self) -> bool:
        """Go on as far as possible; return whether anything has happened."""
        before = self.state
        self._obey()
        self._advance()
        self._feed()
        self._publish()
        self._forget()
        self._answering = self._folder(self.state.active)
        return self.state is not before

    # Control

    def _obey(self) -> None:
        for identity in self._controls.ids():
            if identity > self.state.obeyed:
                row = self._controls.read(identity)
                if row is not None and row["do"] == STOP:
                    self.stop_asked = True
                elif row is not None and row["do"] == CONTROL:
                    self._do(row)
                    continue
                self._write(replace(self.state, obeyed=identity))

    def _do(self, row: dict[str, Any]) -> None:
        """Begin or roll back a deployment; it is obeyed with the same write."""
        obeyed = replace(self.state, obeyed=row["id"])
        if row["control"] == ROLLBACK:
            self._roll_back(obeyed, row["id"])
        elif row["control"] == DEPLOY:
            try:
                request = DeployRequest.of(row["deployment"])
                check_request(request, self.state.deployment, self._keep_us)
            except (MidstreamError, KeyError, TypeError) as error:
                self._write(obeyed)
                self._note("deployment", {"identity": row["id"], "state": REFUSED, "reason": str(error)})
                return
            self._deploy(obeyed, row, request)
        else:
            self._write(obeyed)

    def _deploy(self, state: GateState, row: dict[str, Any], request: DeployRequest) -> None:
        if state.deployment is not None and state.deployment.state == SWITCHED:
            self._finish(state.deployment)  # the grace of the one before is over
            state = replace(self.state, obeyed=row["id"])
        number = state.made + 1
        if isinstance(row.get("source"), str):
            self._fleet.keep_source(number, row["source"])
        reach("deployment asked")
        asked_s = self._world.clock.now_ns() / 1e9
        deployment = Deployment(row["id"], request, state.active, number, PREPARED, asked_s=asked_s)
        entry = VersionEntry(number, request.build)
        self._write(replace(state.with_entry(entry), made=number, deployment=deployment))
        self._fleet.start(entry)

    def _roll_back(self, state: GateState, identity: str) -> None:
        deployment = state.deployment
        if deployment is not None and deployment.state in BEFORE_SWITCH:
            self._give_up(state, deployment, "it was asked for")
        elif deployment is not None and deployment.state == SWITCHED:
            self._go_back(state, deployment, "it was asked for")
        else:
            self._write(state)
            said = "there is no version to go back to: the old one is given up when its grace is over"
            self._note("rollback", {"identity": identity, "state": REFUSED, "reason": said})

    # Deployments

    def _advance(self) -> None:
        self._watch_active()
        deployment = self.state.deployment
        if deployment is None or deployment.state not in OPEN:
            self._note_state()
            return
        try:
            self._check_new(deployment)
        except MidstreamError as error:
            if deployment.state == SWITCHED:
                self._go_back(self.state, deployment, str(error))
            else:
                self._give_up(self.state, deployment, str(error))
        else:
            if deployment.state == PREPARED:
                self._begin_to_read(deployment)
            elif deployment.state == CATCHING_UP:
                self._catch_up(deployment)
            elif deployment.state == COMPARING:
                self._compare(deployment)
            elif self._grace_is_over(deployment):
                self._finish(deployment)
        self._note_state()

    def _watch_active(self) -> None:
        """Fail when the version that answers does; during the grace the new one may still be taken back."""
        deployment = self.state.deployment
        if deployment is not None and deployment.state == SWITCHED:
            if (why := self._fleet.failure(deployment.from_version)) is not None:
                self._note("old version failed", {"version": deployment.from_version, "reason": why})
                self._finish(deployment)
            elif self._fleet.failure(self.state.active) is not None:
                return
        why = self._fleet.failure(self.state.active)
        if why is not None:
            self.failure = why

    def _check_new(self, deployment: Deployment) -> None:
        """Raise when the new version has failed, or gets no further."""
        number = deployment.to_version
        why = self._fleet.failure(number)
        if why is not None:
            raise MidstreamError(f"version {number} failed: {why}")
        entry = self.state.entry(number)
        at, fed = -1, 0
        if entry.first is not None:
            folder = self._fleet.folder(number, entry.first)
            at, fed = folder.answered, folder.fed
        now_s = self._world.clock.elapsed_s()
        waits = entry.first is not None and at >= fed
        if waits or self._moved.get(number, (None, 0.0))[0] != at:
            self._moved[number] = at, now_s
        elif now_s - self._moved[number][1] > deployment.request.timeout_us / 1e6:
            where = f"segment {fed}" if at >= 0 else "its start"
            raise MidstreamError(
                f"version {number} got no further than {where} for {now_s - self._moved[number][1]:.0f} s"
            )

    def _begin_to_read(self, deployment: Deployment) -> None:
        """Say which segment the new version begins with, once its program runs."""
        schema, old = self._fleet.schema(deployment.to_version), self._fleet.schema(deployment.from_version)
        if schema is None or old is None:
            return
        request = deployment.request
        changed = schema_change(old, schema)
        if changed and not request.allow_schema_change:
            why = f"the output changes: {'; '.join(changed)}; say allow_schema_change if that is wanted"
            self._give_up(self.state, deployment, why, REFUSED)
            return
        if request.how == MOVING_STATE:
            for _ in range(SETTLING):
                self.journal.tick()
        seen = self.journal.last
        first = seen + 1
        if request.replays:
            width_us = history_us(request, self._keep_us)
            first = self.journal.first if width_us is None else self.journal.needed(width_us)
        settled = seen if request.how == MOVING_STATE or not request.replays else seen + SETTLING
        reach("first segment chosen")
        entry = replace(self.state.entry(deployment.to_version), first=first)
        on_the_way = replace(deployment, state=CATCHING_UP, seen=seen, settled=settled)
        self._write(replace(self.state.with_entry(entry), deployment=on_the_way))
        self._fleet.folder(entry.number, first)

    def _catch_up(self, deployment: Deployment) -> None:
        """Switch, or begin to compare, when the new version can answer as the old one would."""
        state, request = self.state, deployment.request
        new = self._folder(deployment.to_version)
        if request.change and not request.replays:
            self._change_at(deployment, new)
            return
        if new.answered < max(deployment.settled, state.published + 1 - BEHIND) or state.published < deployment.settled:
            return
        at = min(new.answered, state.published) - SETTLING
        if request.how == PARALLEL_TRACK and not has_passed(request, self._keep_us, self.journal, new.first, at):
            return
        if request.verify != NO:
            at = state.published
            self._write(replace(state, deployment=replace(deployment, state=COMPARING, compare_after=at, compared=at)))
        else:
            self._switch(deployment, state.published)

    def _change_at(self, deployment: Deployment, new: VersionFolder) -> None:
        """Go from one meaning to the other at the position, or at the first answer after it."""
        at = self.state.published
        if at < deployment.seen or new.answered <= at:
            return
        if deployment.request.how == IMMEDIATE or new.read(at + 1).num_rows:
            self._switch(deployment, at)

    def _compare(self, deployment: Deployment) -> None:
        """Compare the next segments; switch when enough were equal, or refuse."""
        state, request = self.state, deployment.request
        old, new = self._folder(deployment.from_version), self._folder(deployment.to_version)
        now = deployment
        while now.compared < min(old.answered, new.answered) and now.compared < state.published:
            segment = now.compared + 1
            before, after = old.read(segment), new.read(segment)
            found = difference(before, after)
            now = replace(now, compared=segment, with_rows=now.with_rows + (before.num_rows + after.num_rows > 0))
            if found is not None:
                said = now.difference or f"at segment {segment} {found.sentence}"
                now = replace(now, differing=now.differing + 1, difference=said)
                if request.verify == REFUSE:
                    self._give_up(self.state, now, f"its output differs: {said}", REFUSED)
                    return
        if now is not deployment:
            self._write(replace(self.state, deployment=now))
        if now.with_rows >= request.segments:
            # What leaves is held for a moment, so that all of it has been compared.
            self._hold = self._hold if self._hold is not None else state.published
            if now.compared >= state.published:
                self._switch(now, state.published)

    def _switch(self, deployment: Deployment, position: int) -> None:
        """Let the new version answer from here on."""
        reach("switch due")
        until_s = self._world.clock.now_ns() / 1e9 + deployment.request.grace_us / 1e6
        after = replace(deployment, state=SWITCHED, position=position, until_s=until_s)
        self._hold = None
        self._write(replace(self.state.with_turn(deployment.to_version, position + 1), deployment=after))
        self._folder(deployment.from_version).feed_up_to(None)

    def _grace_is_over(self, deployment: Deployment) -> bool:
        """Return whether the old version may go: the new one has answered, and its time is up."""
        answered = self.state.published > (deployment.position or 0)
        return answered and self._world.clock.now_ns() / 1e9 >= (deployment.until_s or 0.0)

    def _finish(self, deployment: Deployment) -> None:
        self._write(replace(self.state.without(deployment.from_version), deployment=replace(deployment, state=DONE)))
        self._fleet.stop(deployment.from_version)

    def _give_up(self, state: GateState, deployment: Deployment, why: str, as_: str = ROLLED_BACK) -> None:
        """Go on with the old version alone; nothing of the new one has left."""
        self._hold = None
        after = replace(deployment, state=as_, reason=why)
        self._write(replace(state.without(deployment.to_version), deployment=after))
        self._fleet.stop(deployment.to_version)
        self._folder(deployment.from_version).feed_up_to(None)

    def _go_back(self, state: GateState, deployment: Deployment, why: str) -> None:
        """Let the old version answer again, from the segment after the last one that has left."""
        after = replace(deployment, state=ROLLED_BACK, reason=why)
        back = state.with_turn(deployment.from_version, state.published + 1).without(deployment.to_version)
        self._write(replace(back, deployment=after))
        self._fleet.stop(deployment.to_version)

    # Segments

    def _feed(self) -> None:
        deployment = self.state.deployment
        for entry in self.state.versions:
            if entry.first is not None:
                folder = self._folder(entry.number)
                waits = (
                    deployment is not None
                    and deployment.state == CATCHING_UP
                    and deployment.request.how == MOVING_STATE
                    and entry.number == deployment.from_version
                )
                folder.feed_up_to(deployment.seen if waits and deployment is not None else None)

    def _publish(self) -> None:
        """Let answers leave, in order."""
        while self.state.published < self._limit():
            segment = self.state.published + 1
            folder = self._folder(self.state.version_at(segment))
            if folder.answered < segment:
                return
            rows = folder.read(segment)
            self._publish_rows(rows, segment)
            reach("segment published")
            rows_out = self.state.rows_out + rows.num_rows
            self._write(replace(self.state, published=segment, rows_out=rows_out))

    def _limit(self) -> int:
        """Return the last segment that may leave before the deployment gets further."""
        deployment, last = self.state.deployment, self.journal.last
        if deployment is None or deployment.state not in BEFORE_SWITCH:
            return last
        if deployment.state == CATCHING_UP and deployment.request.change and not deployment.request.replays:
            if deployment.request.how == IMMEDIATE:
                return deployment.seen
            new = self._folder(deployment.to_version)
            at = self.state.published
            waits = at >= deployment.seen and (new.answered <= at or new.read(at + 1).num_rows > 0)
            return at if waits else max(deployment.seen, at + 1)
        if deployment.state == CATCHING_UP and deployment.request.how == MOVING_STATE:
            return deployment.seen
        return last if self._hold is None else self._hold

    def _forget(self) -> None:
        """Forget what nobody needs any more: answers that have left, and the start of the journal."""
        state, deployment = self.state, self.state.deployment
        upto = state.published
        if deployment is not None and deployment.state == COMPARING:
            upto = min(upto, deployment.compared)
        for entry in state.versions:
            if entry.first is not None:
                self._folder(entry.number).forget(upto)
        if self._keep_us is not None and all(entry.first is not None for entry in state.versions):
            least = [self._folder(entry.number).fed + 1 for entry in state.versions]
            if deployment is not None and deployment.state in BEFORE_SWITCH:
                # Whether the history has passed is asked of the segment before its first.
                least.append((state.entry(deployment.to_version).first or 1) - 1)
            self.journal.trim(min([self.journal.needed(self._keep_us), *least]))

    @property
    def waits_for_rows(self) -> bool:
        """Return whether a deployment goes on only with further segments."""
        deployment = self.state.deployment
        if deployment is None or deployment.state not in (CATCHING_UP, SWITCHED):
            return False  # what is compared must have rows
        if deployment.state == SWITCHED and self.state.published > (deployment.position or 0):
            return False  # the new version has answered
        return all(
            self._folder(e.number).answered >= self.journal.last for e in self.state.versions if e.first is not None
        )

    @property
    def idle(self) -> bool:
        """Return whether everything in the journal has been answered by all versions, and has left."""
        state = self.state
        behind = [e for e in state.versions if e.first is None or self._folder(e.number).answered < self.journal.last]
        return not behind and state.published >= self.journal.last

    def answered(self, number: int) -> int:
        """Return the last segment that a version has answered, once it reads."""
        return self._folder(number).answered

    def lag(self) -> int:
        """Return how many segments the version that answers is behind the journal; from any thread."""
        return self.journal.last - self._answering.answered

    def _folder(self, number: int) -> VersionFolder:
        first = self.state.entry(number).first
        assert first is not None, "it has begun to read"
        return self._fleet.folder(number, first)

    def _write(self, state: GateState) -> None:
        self._log.write(state)
        self.state = state
        if state.deployment is not None:
            reach(f"deployment {state.deployment.state}")

    def _note_state(self) -> None:
        """Write into the events what became of a deployment; a restart says it again."""
        deployment = self.state.deployment
        if deployment is not None and self._noted != (deployment.identity, deployment.state):
            self._noted = deployment.identity, deployment.state
            self._note("deployment", record_of(deployment))
