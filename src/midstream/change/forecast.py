"""What a change would do, before anything happens: guarantees, a recommendation, and how long it would take.

spans of both queries + rows per second ─▶ drain, first answer ─▶ for each method: who runs how long, what waits
"""

from collections.abc import Iterable
from dataclasses import dataclass

from midstream.change.guarantees import DRAIN_QUERY, DRAIN_STREAM, Guarantees, guarantees
from midstream.change.reach import Reach, reach_of
from midstream.change.recommend import Recommendation, recommend
from midstream.change.repository import columns_of
from midstream.change.request import DELAYED_DRAIN, GRACEFUL_DRAIN, GRACEFUL_IMMEDIATE, IMMEDIATE
from midstream.change.schema import schema_change
from midstream.change.span import Span
from midstream.model.statistics import Statistics
from midstream.plan.plan import Plan

Seconds = float | None
"""Event time, estimated; None: nobody can say."""


@dataclass(frozen=True)
class Timing:
    """How long a method would take, in event time from the position on."""

    old_gone_s: Seconds
    first_answer_s: Seconds
    """When the new query would first answer."""
    together_s: Seconds
    """How long both queries would run."""
    pause_s: Seconds
    """How long no query would answer."""
    held_back: float | None = 0.0
    """Results of the new query that would wait for the old one."""


@dataclass(frozen=True)
class ChangeForecast:
    """What is known of a change before anything happens."""

    old: Span
    new: Span
    guarantees: dict[str, Guarantees]
    timings: dict[str, Timing]
    recommended: Recommendation
    schema: tuple[str, ...]
    """How the output would change, a sentence a column."""

    def __str__(self) -> str:
        lines = []
        for label, known in self.guarantees.items():
            lines += [f"{label}: refused: {known.refused}"] if known.refused else [
                f"{label}:", *(f"  {name}: {cell}" for name, cell in known.cells.items())]  # fmt: skip
        return "\n".join([*lines, f"recommended: {self.recommended.label}, since {self.recommended.why}"])


def forecast_change(
    old: Plan, new: Plan, old_stats: Statistics, new_stats: Statistics, matters: Iterable[str] = ()
) -> ChangeForecast:
    """Say what each method would guarantee and how long it would take."""
    known, before, after = guarantees(old, new), reach_of(old), reach_of(new)
    drain_s = _drain_s(before, old_stats)
    first_s, every_s = after.answers_s(new_stats.rows_per_s) or (None, None)
    return ChangeForecast(
        before.span,
        after.span,
        known,
        {label: _timing(label, drain_s, first_s, every_s) for label in known},
        recommend(matters, known),
        tuple(schema_change(columns_of(old), columns_of(new))),
    )


def _timing(label: str, drain_s: Seconds, first_s: Seconds, every_s: Seconds) -> Timing:
    both_s = _sum(first_s, drain_s)
    if label == IMMEDIATE:
        return Timing(0.0, first_s, 0.0, first_s)
    if label == DELAYED_DRAIN:
        return Timing(drain_s, both_s, 0.0, first_s)
    if label == GRACEFUL_IMMEDIATE:
        return Timing(first_s, first_s, first_s, 0.0)
    if label == GRACEFUL_DRAIN:
        return Timing(both_s, first_s, both_s, 0.0)
    if drain_s is None or first_s is None:
        # The new query answers whatever the old one does, unless its results wait.
        return Timing(drain_s, first_s if label == DRAIN_STREAM else None, drain_s, None, 0.0 if label == DRAIN_STREAM
                      else None)  # fmt: skip
    pause_s = max(0.0, first_s - drain_s)
    if label == DRAIN_STREAM:
        return Timing(drain_s, first_s, drain_s, pause_s)
    assert label == DRAIN_QUERY
    held = None if every_s is None else 0.0 if first_s > drain_s else 1 + (drain_s - first_s) / every_s
    return Timing(drain_s, max(drain_s, first_s), drain_s, pause_s, held)


def _sum(*parts: Seconds) -> Seconds:
    known = [p for p in parts if p is not None]
    return sum(known) if len(known) == len(parts) else None


def _drain_s(reach: Reach, stats: Statistics) -> Seconds:
    """Estimate how long after a position a result can still hold an older row."""
    span = reach.span
    if span.endless:
        return None
    parts = [span.us / 1e6]
    for counted in span.counted:
        rate = stats.rows_per_s.get(counted.alias or "")
        if not rate:
            return None
        parts.append(counted.left / rate)
    return sum(parts) if span.in_turn else max(parts)
