"""A run whose query changes, over and over: which versions live when, what leaves, in which order.

    script of changes and control elements ─▶ FStart, IStop, DStop of each version ─▶ what is emitted, in order

The rules are those of decision 29. Everything is computed from all rows at once; nothing here knows the engine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oracle.changes import BEGINNING, NEVER, Query, Result, Row, Trigger, Value

Keeps = Callable[[Result], bool]
Control = tuple[str, int] | tuple[str, int, int]
"""Kind and position; of another hop also how wide it is."""


@dataclass(frozen=True)
class Change:
    """Go on with another query from a position on, by one of METHODS."""

    position: int
    query: Query
    method: str


def left_before(trigger: Trigger, position: int) -> bool:
    """Tell whether what a trigger brings has left before a position: the end of an instance of time lies before it."""
    return trigger[0] < position or trigger == (position, -1, -1)


def immediate_stop(position: int) -> Keeps:
    """IStop: what has left before the position."""
    return lambda y: left_before(y.trigger, position)


def stop_before_first(moment: int, position: int) -> Keeps:
    """IStop at the first result of another version: what has left before that time, or before the change at all."""
    return lambda y: y.trigger[0] < moment or left_before(y.trigger, position)


def drain_stop(position: int) -> Keeps:
    """DStop: what depends on a row before the position, or has left before it, be it that it depends on nothing."""
    return lambda y: y.has_row_before(position) or left_before(y.trigger, position)


def drain_stop_at_first(moment: int) -> Keeps:
    """DStop at the first result of another version: what has left before, and what depends on a row before it."""
    return lambda y: y.trigger[0] < moment or y.has_row_before(moment)


@dataclass(eq=False)
class Version:
    """One version of the query from one FStart on, and what stops it."""

    number: int
    query: Query
    start: int
    """NEVER for one that is cancelled before it has started."""
    results: list[Result]
    """All it would give without stops, in its order."""
    stops: list[Keeps] = field(default_factory=list)
    drains_from: int = NEVER
    stopped_at: int = NEVER
    stopped_by: "ChangeRun | None" = None
    """The change whose IStop it was."""
    waits_for: "list[Version]" = field(default_factory=list)
    """Its results are held back until these versions are over."""
    released_at: int = NEVER
    """A later change lets out there what is held back."""

    def given_out(self) -> list[Result]:
        return [y for y in self.results if all(keeps(y) for keeps in self.stops)]

    def stop(self, position: int, keeps: Keeps, by: "ChangeRun | None" = None) -> None:
        self.stops.append(keeps)
        if position < self.stopped_at:
            self.stopped_at, self.stopped_by = position, by

    def drain(self, position: int, keeps: Keeps) -> None:
        if self.drains_from == NEVER:
            self.stops.append(keeps)
            self.drains_from = position

    def cancel(self) -> None:
        self.start, self.results = NEVER, []


@dataclass(eq=False)
class ChangeRun:
    """What becomes of a change."""

    change: Change
    old: list[Version]
    new: Version
    state: str = "under way"
    pending: bool = False
    """A stop waits for the first result of the new version, or its start for the end of the drain."""
    moment: int = BEGINNING
    """When the new version first answered, of a graceful change."""
    end: int = NEVER
    audited_until: int = NEVER
    """Where the next element lies: up to there a version that starts late is compared with one that did not."""

    @property
    def open(self) -> bool:
        return self.state == "under way"

    def close(self, state: str, position: int) -> None:
        self.state, self.end, self.pending = state, position, False


@dataclass(frozen=True)
class Given:
    """A result that is emitted, and the version it is of."""

    version: int
    result: Result
    moment: Trigger
    """When it leaves: with its trigger, or when it is let out."""
    released: bool = False
    """A further element has let it out."""

    @property
    def row(self) -> tuple[Value, ...]:
        """Return the output row: the select list, `_time`, `_version`."""
        return *self.result.values.values(), self.result.time, self.version


class Oracle:
    """A run over recorded rows with changes in order of their positions."""

    def __init__(
        self,
        rows: dict[str, list[Row]],
        first: Query,
        changes: Sequence[Change],
        controls: Sequence[Control] = (),
    ) -> None:
        self.rows = rows
        self.changes = changes
        read = first.streams.union(*(c.query.streams for c in changes))
        self.latest = max((r.time for name in read for r in rows[name]), default=BEGINNING)
        self.versions = [self._version(1, first, BEGINNING)]
        self.runs: list[ChangeRun] = []
        """Of the changes whose position is reached, in order."""
        script: list[tuple[str, int, *tuple[object, ...]]] = [("change", c.position, c) for c in changes]
        for kind, position, *how in sorted([*script, *controls], key=lambda element: element[1]):
            if position > self.latest:
                break
            self._pass(position)
            if kind not in ("abort", "hop"):
                for run in self.runs:
                    run.audited_until = min(run.audited_until, position)
            getattr(self, f"_{kind}")(position, *how)
            self._pass(position)
        self._pass(NEVER)
        for run in self.runs:
            if run.open:
                run.state = "unfinished"

    @property
    def ends(self) -> list[int]:
        """Return the position at which each change is over, NEVER if it is not."""
        found = [run.end for run in self.runs]
        return found + [NEVER] * (len(self.changes) - len(found))

    def given_out(self) -> list[Given]:
        """Return what is emitted, in order: by trigger, older versions first, unless held back."""
        found = []
        for place, v in enumerate(self.versions):
            known = max((self._known(old) for old in v.waits_for), default=BEGINNING)
            held_until = min(known, v.released_at)
            stopped = any(old.stopped_at == known == self._known(old) for old in v.waits_for)
            for n, y in enumerate(v.given_out()):
                moment = max(y.trigger, (held_until, -1, -1))
                released = (stopped or v.released_at < known) and y.trigger <= (held_until, -1, -1)
                found.append(((moment, v.number, place, n), Given(v.number, y, moment, released)))
        return [given for _, given in sorted(found, key=lambda pair: pair[0])]

    def printed(self, run: ChangeRun, result: Result) -> object:
        """Return what is equal in results of both versions of a change that are duplicates."""
        return result.depends

    def fresh_start(self, query: Query, position: int) -> list[Result]:
        """FStart: the query applied to the rows from the position on."""
        return query.results(self._from(position), self.latest)

    def _from(self, position: int) -> dict[str, list[Row]]:
        return {name: [r for r in rows if r.time >= position] for name, rows in self.rows.items()}

    def _version(self, number: int, query: Query, start: int) -> Version:
        return Version(number, query, start, self.fresh_start(query, start) if start != NEVER else [])

    # Ends -------------------------------------------------------------------------------------------------------------

    def _over(self, version: Version) -> int:
        """Return the position at which nothing is left of a version that stops."""
        if version.start == NEVER:
            return BEGINNING
        if version.drains_from == NEVER or version.stopped_at <= version.drains_from:
            return version.stopped_at
        return min(self._drained(version), version.stopped_at)

    def _drained(self, version: Version) -> int:
        return version.query.drained(self._from(version.start), version.drains_from, self.latest)

    def _known(self, version: Version) -> int:
        """Return from which position on it is known that a version is over."""
        return self._over(version)

    def _alive(self, position: int) -> list[Version]:
        return [v for v in self.versions if v.start <= position and self._known(v) > position]

    # What the data cause ----------------------------------------------------------------------------------------

    def _pass(self, position: int) -> None:
        """Let happen what first results and ended drains before a position cause."""
        for run in self.runs:
            if run.pending and run.change.method == "delayed-drain":
                known = max(self._known(v) for v in run.old)
                if known <= position and known != NEVER:
                    start = max(run.change.position, *(self._over(v) for v in run.old))
                    run.new.start, run.new.results = start, self.fresh_start(run.new.query, start)
                    run.pending = False
            elif run.pending:
                first = next(iter(run.new.given_out()), None)
                if first is not None and left_before(first.trigger, position):
                    self._first_result(run, first.trigger[0])
        for run in self.runs:
            if run.open and not run.pending:
                ends = [run.change.position, run.moment, *(self._over(v) for v in run.old)]
                if run.change.method == "delayed-drain":
                    ends.append(run.new.start)
                known = max([run.change.position, *(self._known(v) for v in run.old)])
                if max(ends) != NEVER and known <= position:
                    run.close("finished", max(ends))

    def _first_result(self, run: ChangeRun, moment: int) -> None:
        """Do what a graceful change does at the first result of its new version."""
        run.pending, run.moment = False, max(moment, run.change.position)
        for old in run.old:
            if run.change.method == "graceful-immediate":
                old.stop(run.moment, stop_before_first(run.moment, run.change.position), run)
            else:
                old.drain(run.moment, drain_stop_at_first(run.moment))

    # Elements ---------------------------------------------------------------------------------------------------------

    def _void(self, position: int, state: str) -> None:
        """Give up what earlier changes still wait for."""
        for run in self.runs:
            if run.pending:
                if run.change.method == "delayed-drain":
                    run.new.cancel()
                run.close(state, position)

    def _change(self, position: int, change: Change) -> None:
        self._void(position, "superseded")
        old = self._alive(position)
        if change.method not in ("drain/query", "immediate"):
            for run in self.runs:
                if any(w in old for w in run.new.waits_for) and run.new.released_at == NEVER:
                    run.new.released_at = position
                    if run.open:
                        run.close("superseded", position)
        new = self._version(len(self.runs) + 2, change.query, NEVER if change.method == "delayed-drain" else position)
        run = ChangeRun(change, old, new)
        for version in old:
            if change.method == "immediate":
                version.stop(position, immediate_stop(position), run)
            elif change.method in ("delayed-drain", "drain/query", "drain/stream"):
                version.drain(position, drain_stop(position))
        run.pending = bool(old) and (change.method == "delayed-drain" or change.method.startswith("graceful"))
        if change.method == "delayed-drain" and not old:
            new.start, new.results = position, self.fresh_start(change.query, position)
        if change.method == "drain/query":
            new.waits_for = old
        self.runs.append(run)
        self.versions.append(new)

    def _stop_all(self, position: int) -> None:
        for run in self.runs:
            if run.open:
                run.close("stopped", position)

    def _istop(self, position: int) -> None:
        self._void(position, "stopped")
        self._stop_all(position)
        for version in self._alive(position):
            version.stop(position, immediate_stop(position))

    def _dstop(self, position: int) -> None:
        self._void(position, "stopped")
        for version in self._alive(position):
            version.drain(position, drain_stop(position))

    def _fstart(self, position: int) -> None:
        changing = next((run for run in reversed(self.runs) if run.open), None)
        waiting = [run.new for run in self.runs if run.pending and run.change.method == "delayed-drain"]
        aborted = {run.new.number for run in self.runs if run.state == "aborted"}
        alive = self._alive(position)
        begun = [v for v in self.versions if v.start != NEVER and v.number not in aborted]
        newest = (waiting or sorted(alive or begun, key=lambda v: v.number))[-1]
        self._void(position, "stopped")
        self._stop_all(position)
        for version in alive:
            own = version.number == newest.number
            version.stop(position, immediate_stop(position), None if own else changing)
        if newest in waiting:
            newest.start, newest.results = position, self.fresh_start(newest.query, position)
        else:
            query = self.started_anew(newest, position, newest in alive)
            self.versions.append(self._version(newest.number, query, position))

    def started_anew(self, version: Version, position: int, runs: bool) -> Query:
        """Return the query of a version that is started anew, be it that it `runs` up to there."""
        return version.query

    def _abort(self, position: int) -> None:
        run = next((run for run in reversed(self.runs) if run.open), None)
        if run is not None and run.pending and self.abortable(run):
            run.new.stop(position, immediate_stop(position))
            run.close("aborted", position)

    def abortable(self, run: ChangeRun) -> bool:
        """Tell whether a change can be given up: its one old version goes on as it was."""
        return run.change.method.startswith("graceful") and [v.drains_from for v in run.old] == [NEVER]
