"""What each method of change guarantees: in general, and for a pair of queries whose windows are known.

    old windows ─▶ span: how far after the position its last result can leave ─┐
    new windows ─▶ how many rows its first answer takes at least ──────────────┴─▶ figure 10, cell by cell

A cell says more than the general table only where that is sure at every position and for all rows.
"""

from dataclasses import dataclass, fields

from midstream.change.reach import Reach, reach_of
from midstream.change.request import (
    DELAYED_DRAIN,
    DRAIN,
    GRACEFUL_DRAIN,
    GRACEFUL_IMMEDIATE,
    IMMEDIATE,
    QUERY_ORDER,
    STREAM_ORDER,
)
from midstream.change.span import unit
from midstream.model.time import format_duration
from midstream.plan.plan import Plan
from midstream.plan.window import RangeInstances, RowsInstances

DRAIN_QUERY, DRAIN_STREAM = f"{DRAIN}/{QUERY_ORDER}", f"{DRAIN}/{STREAM_ORDER}"
LABELS = (IMMEDIATE, DELAYED_DRAIN, DRAIN_QUERY, DRAIN_STREAM, GRACEFUL_IMMEDIATE, GRACEFUL_DRAIN)
"""The methods, a drain once for each order."""
SAFETY = ("loss", "query_order", "stream_order", "duplicates")
LIVENESS = ("progress", "termination")

_TABLE = {
    IMMEDIATE: (False, True, True, True, True, True),
    DELAYED_DRAIN: (False, True, True, True, False, False),
    DRAIN_QUERY: (True, True, False, True, True, False),
    DRAIN_STREAM: (True, False, True, True, True, False),
    GRACEFUL_IMMEDIATE: (False, True, True, True, True, False),
    GRACEFUL_DRAIN: (True, False, True, False, True, False),
}
FIG_10 = {label: dict(zip(SAFETY + LIVENESS, row, strict=True)) for label, row in _TABLE.items()}
"""What holds for any two queries: figure 10 of the paper. `loss` and `duplicates` are true where there are none."""

WHY_NOT = {
    (IMMEDIATE, "loss"): "results that the old query has begun are dropped",
    (DELAYED_DRAIN, "loss"): "the new query does not see the rows that come while the old one drains",
    (DRAIN_QUERY, "stream_order"): "results of the new query wait until the old one is drained",
    (DRAIN_STREAM, "query_order"): "the old query still answers after the new one has begun to",
    (GRACEFUL_IMMEDIATE, "loss"): "results that the old query has begun are dropped at the new one's first answer",
    (GRACEFUL_DRAIN, "query_order"): "the old query still answers after the new one has begun to",
    (
        GRACEFUL_DRAIN,
        "duplicates",
    ): "both queries answer from the rows between the position and the new one's first answer",
}
"""Why a method does not promise something, where that has nothing to do with how a drain ends."""
DIFFERENCE = "a difference takes results back, so that only immediate goes from or to one"


# What two queries have to do with each other -------------------------------------------------------------------------


def _follows(old: Reach, new: Reach) -> tuple[str, bool] | None:
    """Return why the first answer of the new query cannot come before the last one of the draining old query.

    And whether it comes after it, rather than perhaps with it. None where it can come before.
    """
    first = new.rows_to_answer
    if old.rows_to_answer is None or first is None or old.streams != new.streams:
        return None
    a, b, span = old.query, new.query, old.span
    if len(a.sources) == len(b.sources) == 1 and span.us == 0 and not span.unknown:
        same = not a.parts.first.conjuncts or (unit(a) == unit(b) and a.sources[0].alias == b.sources[0].alias)
        if same and all(c.of == unit(a) for c in span.counted) and first >= span.rows > 0:
            takes = f"the new query first answers with row {first:,} after the position at the earliest"
            return f"{takes}, the old one with row {span.rows - 1:,} at the latest", True
    match old.windows, new.windows:
        case [RangeInstances() as one], [RangeInstances() as then, *_] if len(a.sources) == 1:
            if one.width_us <= one.slide_us and then.slide_us % one.slide_us == 0:
                slide = format_duration(then.slide_us).lower()
                return f"the new query's windows end at multiples of {slide}, where the old one's last has ended", False
    return None


def _different(old: Reach, new: Reach) -> str | None:
    """Return why no result of one query can depend on the same rows as one of the other, or None."""
    a, b, ours, theirs = old.size, new.size, old.streams, new.streams
    if a is not None and b is not None and a != b:
        return f"results of the old query depend on {a:,} rows, those of the new one on {b:,}"
    if (a is not None and not ours <= theirs) or (b is not None and not theirs <= ours):
        return f"results of one query depend on rows of {', '.join(sorted(ours ^ theirs))}, those of the other do not"
    return None


# Guarantees ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One guarantee of one method: whether it holds for these queries, whether it does for all, and why."""

    holds: bool
    general: bool
    why: str = ""

    def __str__(self) -> str:
        word = "guaranteed" if self.holds else "not guaranteed"
        here = " here" if self.holds != self.general else ""
        return f"{word}{here}{f' ({self.why})' if self.why else ''}"


@dataclass(frozen=True)
class Guarantees:
    """What one method guarantees for a pair of queries; `loss` and `duplicates` hold where there are none."""

    loss: Cell
    query_order: Cell
    stream_order: Cell
    duplicates: Cell
    progress: Cell
    termination: Cell
    refused: str = ""
    """Why the method is not for these queries, if it is not."""
    notes: tuple[str, ...] = ()

    @property
    def cells(self) -> dict[str, Cell]:
        """Return all cells by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name in SAFETY + LIVENESS}

    @property
    def perfect(self) -> bool:
        """Return whether everything holds."""
        return not self.refused and all(c.holds for c in self.cells.values())


def guarantees(old: Plan, new: Plan) -> dict[str, Guarantees]:
    """Return what each method guarantees when a query changes into another."""
    pair = _Pair(old, new)
    return {label: pair.guarantees(label) for label in LABELS}


class _Pair:
    """What is known of two queries, and what follows from it."""

    def __init__(self, old: Plan, new: Plan) -> None:
        self.old, self.new = reach_of(old), reach_of(new)
        self.span = self.old.span
        rows = self.old.of_rows and self.new.of_rows
        self.follows = _follows(self.old, self.new) if rows else None
        self.different = _different(self.old, self.new) if rows else None
        self.prompt = self.old.prompt and self.new.prompt
        self.windows = self.old.windows if rows else ()
        self.at_once = (
            "no result of the old query holds rows from both sides of a position" if self.span.at_once else ""
        )
        self.drains = self.old.drains and self.new.drains

    def guarantees(self, label: str) -> Guarantees:
        cells = {name: self._cell(label, name) for name in SAFETY + LIVENESS}
        refused = "" if self.drains or label == IMMEDIATE else DIFFERENCE
        return Guarantees(**cells, refused=refused, notes=tuple(self._notes(label)))

    def _cell(self, label: str, name: str) -> Cell:
        general = FIG_10[label][name]
        if name in LIVENESS:
            why = "" if general else self._never(label)
            # Figure 10 says no where it depends on windows; here they are known.
            return Cell(general or not why, general, why or ("" if general else self._ends(label)))
        if (label, name) == (GRACEFUL_IMMEDIATE, "duplicates") and not (self.prompt or self.different):
            return Cell(False, general, "the two can answer from the same rows at different times")
        if general:
            return Cell(True, True)
        why = self._reason(label, name)
        return Cell(bool(why), False, why or WHY_NOT[label, name])

    def _reason(self, label: str, name: str) -> str:
        """Return why something holds here that does not in general, or nothing."""
        if name == "duplicates":
            return self.different or (self.at_once if self.prompt else "")
        if self.at_once or self.follows is None or label in (IMMEDIATE, DELAYED_DRAIN, GRACEFUL_DRAIN):
            return self.at_once
        why, after = self.follows
        if label == GRACEFUL_IMMEDIATE:
            # It stops the old query before the time of the first answer, so one of the same time would be dropped.
            return f"{why}; as long as rows have different times" if after else ""
        return why

    def _never(self, label: str) -> str:
        """Return why a change may never end, or nothing."""
        if label in (GRACEFUL_IMMEDIATE, GRACEFUL_DRAIN):
            silent = self.new.silence
            if silent:
                return f"it waits for the new query to answer: {silent}"
        return "" if label == GRACEFUL_IMMEDIATE else (self.span.endless or "")

    def _ends(self, label: str) -> str:
        """Say when a change ends that surely does."""
        first = "when the new query first answers"
        if label == GRACEFUL_IMMEDIATE:
            return first
        drained = f"the drain takes {self.span.drain}"
        return f"{first}; then {drained}" if label == GRACEFUL_DRAIN else drained

    def _notes(self, label: str) -> list[str]:
        notes = []
        if (
            label in (IMMEDIATE, DELAYED_DRAIN)
            and len(self.windows) == len(self.old.query.sources) == 1
            and not self.at_once
        ):
            lost = "nothing is lost at the end of a window of the old query"
            match self.windows[0]:
                case RangeInstances(width_us, slide_us) if width_us <= slide_us:
                    notes.append(f"{lost}: a multiple of {format_duration(slide_us).lower()}")
                case RowsInstances(count, slide, ()) if count <= slide:
                    notes.append(f"{lost}: after a multiple of {slide:,} rows since it started")
        if label == DRAIN_QUERY and self.span.endless and self.drains:
            notes.append(f"output of the new query may be held back for ever: {self.span.endless}")
        return notes
