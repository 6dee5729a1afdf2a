"""Beginnings: what is asked of a bucket, from the control row or the schedule to its position, where it takes effect.

    control rows ──▶ noted, with their positions ──▶ time has come there ──▶ versions enter, leave, start anew
    schedule ───────────┘                                            └──▶ the newest version migrates

Whoever runs the versions stops at `next_due`, calls `begin`, and goes on. Every bucket does the same at the same
position; where buckets meet, `begun` says what has taken effect, and `refused` what could not.
"""

from dataclasses import replace
from typing import Any

from midstream.change.lifecycle import DRAINED, STOPPED, TRANSITIONS, Element
from midstream.change.reach import reach_of
from midstream.change.repository import check_control, columns_of
from midstream.change.request import GRACEFUL_IMMEDIATE, IMMEDIATE, ChangeRequest, ControlRequest
from midstream.change.schema import schema_change
from midstream.engine.bucket.state import Due
from midstream.engine.bucket.versions import BucketVersions
from midstream.engine.control.controls import CHANGE, CONTROL, ELEMENT, MET, MIGRATE
from midstream.engine.run.family import family_of
from midstream.migrate.record import REFUSED, MigrationRecord
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.model.time import FOREVER, NEVER


class Beginnings:
    """What is to happen in a bucket, and what has happened in this micro-batch."""

    def __init__(self, versions: BucketVersions) -> None:
        self._versions = versions
        self._spec = versions.spec
        self._state = versions.state
        self._control = versions.control
        self.begun: list[dict[str, Any]] = []
        """Changes and control elements that took effect in this micro-batch."""
        self.refused: list[MigrationRecord] = []
        """Migrations that could not be noted in this micro-batch."""
        self._met: set[str] = set()
        """What all buckets are known to have come to, by its id."""

    def stray(self, control: dict[str, Any]) -> str | None:
        """Say why a control row cannot be obeyed that nobody has checked; None: it can be."""
        try:
            if control["do"] == CHANGE:
                ChangeRequest(**control["change"])
                self._spec.plan_of(control["version"])
                known = {due.version for due in self._state.due if isinstance(due, ChangeRequest)}
                if control["version"] in known | self._control.lives.keys():
                    return f"version {control['version']} is not a new one"
            elif control["do"] == CONTROL:
                ControlRequest(control["control"])
            elif control["do"] == ELEMENT:
                Element(control["kind"], control["version"], control["at_us"])
                if (STOPPED, control["kind"]) not in TRANSITIONS and control["kind"] != DRAINED:
                    return f"there is no element {control['kind']}"
                if abs(control["version"]) not in self._control.lives:
                    return f"there is no version {control['version']}"
        except (MidstreamError, TypeError, LookupError, OSError) as error:
            return str(error)
        return None

    def begin_batch(self, controls: list[dict[str, Any]]) -> None:
        """Note what control rows ask for: changes take effect after every row that has been read anywhere."""
        state = self._state
        self.begun, self.refused = [], []
        self._met = {control["of"] for control in controls if control["do"] == MET}
        if not state.batches:
            state.due = list(self._spec.schedule)
        at_us = state.progress.latest_us + 1
        for control in controls:
            here_us = control.get("at_us", at_us)
            if control["do"] == CHANGE:
                change = ChangeRequest(**control["change"])
                state.due.append(replace(change, at_us=here_us, identity=control["id"], version=control["version"]))
            elif control["do"] == CONTROL:
                state.due.append(ControlRequest(control["control"], here_us, control["id"]))
            elif control["do"] == ELEMENT:
                # It was decided where the output of all buckets meets.
                self._take_effect(Element(control["kind"], control["version"], control["at_us"]))

    def _take_effect(self, element: Element) -> None:
        """Let an element take effect that the results of all buckets together have caused."""
        if element.kind != DRAINED:
            self._control.element(element)
        elif element.version > 0:
            watched_us = self._control.watched_us(element.version)
            if watched_us is not None and family_of(self._spec.plan_of(element.version)).drains_with_others:
                self._control.see_drained(element.version, watched_us, element.at_us, element.at_us)
                self._control.follow()
            self._control.lives[element.version].note_drained(element.at_us)
        else:
            self._control.end_reference(-element.version)

    def ask(self, controls: list[dict[str, Any]]) -> None:
        """Note the migrations that control rows ask for, from here on; the versions that run have been taken up."""
        newest = self._versions.newest
        for control in controls:
            if control["do"] != MIGRATE or newest is None:
                continue
            if newest.run.planned_elsewhere and "plan" not in control:
                continue
            if control.get("version", newest.number) != newest.number:
                continue  # a plan of a version that runs no more
            identity, at_us = control.get("of", control["id"]), max(newest.state.released_us, -FOREVER)
            asked = dict(control["migration"])
            try:
                request = MigrationRequest(**{**asked, "identity": identity})
                # A position that has passed is here: of the rows before, only those that the next hop needs are there.
                request = replace(request, at_us=max(at_us, NEVER if request.at_us is None else request.at_us))
                if "plan" in control or request.at_us == at_us:
                    self._versions.migrate(request, control.get("plan"), control["id"])
                else:  # whatever version is the newest there
                    self._state.due.append(request)
            except (MidstreamError, TypeError) as error:
                words = str(asked.get("plan")), str(asked.get("strategy"))
                self.refused.append(MigrationRecord(identity, *words, state=REFUSED, reason=str(error)))

    def next_due(self, reached_us: int) -> Due | None:
        """Return the first thing whose position time has come to."""
        return next((due for due in self._state.due if _position_us(due) <= reached_us), None)

    def changes_by(self, reached_us: int) -> bool:
        """Return whether something other than a migration takes effect when time has come there."""
        return any(changes(due) and _position_us(due) <= reached_us for due in self._state.due)

    @property
    def changes_to_come(self) -> int:
        """Return how many changes and control elements wait for their position."""
        return sum(map(changes, self._state.due))

    def must_meet(self, due: Due) -> bool:
        """Return whether all buckets have to come to the position of something first.

        What their results cause together before it comes before it: a first result, the end of a drain, the start
        after one.
        """
        control = self._control
        waits = control.drains or any(change.pending for change in control.changes)
        return waits and not control.decides and changes(due) and due.identity not in self._met

    def begin(self, due: Due) -> None:
        """Let something take effect at its position."""
        self._state.due.remove(due)
        if isinstance(due, MigrationRequest):
            self._migrate(due)
            return
        at_us, versions = _position_us(due), self._versions
        for version in versions.open.values():
            # What a migration holds back does not outlast the version as it was.
            version.run.release_held(at_us)
            version.supersede("the query was changed first")
        began = self._begin_control(due, at_us) if isinstance(due, ControlRequest) else self._begin_change(due, at_us)
        self.begun.append({"at_us": at_us, "id": due.identity, **began})
        waiting = versions.waiting()
        for version in versions.enter_wanted():
            if version.number in waiting:
                version.intake.start_at(at_us)
        versions.leave_ended()
        versions.merge_output()

    def _migrate(self, request: MigrationRequest) -> None:
        """Let the newest version know of a migration whose position has come."""
        if self._versions.newest is not None:
            self._versions.migrate(request)
        else:
            reason = "nothing runs that could be migrated"
            self.refused.append(MigrationRecord.of(request, state=REFUSED, reason=reason))

    def _begin_control(self, due: ControlRequest, at_us: int) -> dict[str, Any]:
        """Let a control element take effect; return what others have to know of it: also why not, if it cannot."""
        control = self._control
        try:
            check_control(due, [self._spec.plan_of(life.version) for life in control.alive])
            control.control(due.element, at_us)
        except MidstreamError as error:
            return {"control": due.control, "refused": str(error)}
        for life in control.alive:
            if life.start_us == at_us:
                self._versions.restart(life.version)
        return {"control": due.control}

    def _begin_change(self, due: ChangeRequest, at_us: int) -> dict[str, Any]:
        """Let a change take effect; return what others have to know of it."""
        state, plan_of = self._state, self._spec.plan_of
        number = state.next_version if due.version is None else due.version
        state.next_version = max(state.next_version, number + 1)
        running, new = [plan_of(life.version) for life in self._control.alive], plan_of(number)
        audit = due.audit
        if audit is None:  # of a version that need not end what it loses is not counted unless that is asked for
            stops = due.method in (IMMEDIATE, GRACEFUL_IMMEDIATE)
            audit = self._spec.audit and not (stops and any(reach_of(plan).span.endless for plan in running))
        audit = audit and all(reach_of(plan).drains for plan in (*running, new))
        before = running[-1] if running else plan_of(self._control.newest)
        columns = schema_change(columns_of(before), columns_of(new))
        self._control.change(due, number, at_us, audit)
        return {"change": due.to_dict(), "version": number, "audit": audit, "schema_change": columns}


def _position_us(due: Due) -> int:
    """Return where something takes effect; without a position, before everything."""
    return NEVER if due.at_us is None else due.at_us


def changes(due: Due) -> bool:
    """Return whether something is a change or a control element, not a migration."""
    return not isinstance(due, MigrationRequest)
