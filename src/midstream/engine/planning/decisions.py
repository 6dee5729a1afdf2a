"""Decisions: what the engine has decided of plans by itself, why, what it expected, and what came of it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

ADVISED, TAKEN, PAID, UNPAID, OPEN = "advised", "taken", "paid", "did not pay", "not measured"
"""What became of a decision. Advised: nothing was changed. Taken: it is being measured."""
MOST = 256
"""Decisions that are kept, the last ones."""


@dataclass
class Decision:
    """One decision."""

    when: int
    """The event time it was made at."""
    from_plan: str
    to_plan: str
    strategy: str
    why: str
    predicted: dict[str, float]
    """Per second of event time, in predicate evaluations and stored results: `before` and `after`. `migration`: what
    going there was to take; `horizon_s`: in which event time it was to pay."""
    measured: dict[str, float] = field(default_factory=dict)
    """Predicate evaluations per second `before` and `after`; `instead`: what the old plan would have taken by then, by
    the statistics there are then and by the `ratio` in which it was wrong before. Per row of input `row_before`,
    `row_after`; milliseconds on the clock for a thousand of them `ms_before`, `ms_after`."""
    state: str = TAKEN
    identity: str = ""
    """The migration it has led to."""

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain values."""
        plain = asdict(self)
        plain["from"], plain["to"] = plain.pop("from_plan"), plain.pop("to_plan")
        return plain

    @staticmethod
    def of(plain: dict[str, Any]) -> "Decision":
        """Return a decision from plain values."""
        known = {k: v for k, v in plain.items() if k not in ("from", "to")}
        return Decision(from_plan=plain["from"], to_plan=plain["to"], **known)


class Decisions:
    """The decisions of a run, in order."""

    def __init__(self) -> None:
        self._made: list[Decision] = []

    def add(self, decision: Decision) -> None:
        """Note a decision."""
        self._made = [*self._made[1 - MOST :], decision]

    def __len__(self) -> int:
        return len(self._made)

    @property
    def last(self) -> Decision | None:
        """Return the last decision."""
        return self._made[-1] if self._made else None

    def end(self) -> None:
        """Say of decisions whose worth could not be measured that nothing more comes."""
        for decision in self._made:
            decision.state = OPEN if decision.state == TAKEN else decision.state

    def to_plain(self) -> list[dict[str, Any]]:
        """Return all decisions as plain values."""
        return [decision.to_dict() for decision in self._made]

    def load(self, plain: Iterable[dict[str, Any]]) -> None:
        """Know what was decided before."""
        self._made = [Decision.of(decision) for decision in plain]
