"""Decisions: what the engine has decided of plans by itself, why, what it expected, and what came of it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from midstream.migrate.record import REFUSED

ADVISED, TAKEN, PAID, UNPAID, OPEN = "advised", "taken", "paid", "did not pay", "not measured"
"""What became of a decision. Advised: nothing was changed. Taken: it is being measured."""
MOST = 256
"""Decisions that are kept, the last ones."""


@dataclass
class Decision:
    """One decision. Costs are predicate evaluations and stored results, per second of event time."""

    when: int
    """The event time it was made at."""
    from_plan: str
    to_plan: str
    strategy: str
    why: str
    predicted: dict[str, float]
    """What the plan takes `before` and `after`, what the `migration` takes in all, and `horizon_s`: in which event time
    it is to pay."""
    measured: dict[str, float] = field(default_factory=dict)
    """What was taken `before` and `after`, on average over `seconds`; what the old plan would have taken `instead`, by
    the statistics of that time and the `ratio` in which they were wrong of it before; what was `saved` by that. Per row
    of input `row_before` and `row_after`; milliseconds on the clock for a thousand of them `ms_before`, `ms_after`."""
    state: str = TAKEN
    identity: str = ""
    """The migration it has led to."""

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain values."""
        plain = asdict(self)
        first = {"when": plain.pop("when"), "from": plain.pop("from_plan"), "to": plain.pop("to_plan")}
        return {**first, **plain}

    @staticmethod
    def of(plain: dict[str, Any]) -> "Decision":
        """Return a decision from plain values."""
        known = {k: v for k, v in plain.items() if k not in ("from", "to")}
        return Decision(from_plan=plain["from"], to_plan=plain["to"], **known)


class Decisions:
    """The decisions of a run, in order."""

    def __init__(self) -> None:
        self._made: list[Decision] = []

    def __len__(self) -> int:
        return len(self._made)

    def add(self, decision: Decision) -> None:
        """Note a decision."""
        self._made = [*self._made[1 - MOST :], decision]

    @property
    def last(self) -> Decision | None:
        """Return the last decision."""
        return self._made[-1] if self._made else None

    def see(self, migrations: Iterable[dict[str, Any]]) -> None:
        """Note of migrations that were refused that their decisions came to nothing."""
        refused = {m["identity"]: m["reason"] for m in migrations if m["state"] == REFUSED}
        for decision in self._made if refused else ():
            if decision.state == TAKEN and decision.identity in refused:
                decision.state, decision.why = REFUSED, f"{decision.why}; refused: {refused[decision.identity]}"

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
