"""The migration of one node to a new operator set: windows first, then two phases.

    new operator set ──▶ windows requested ──▶ all are here: local-ready ──▶ of all others, too: global-ready ──▶ of
                                                                          all others, too: the position is known

Phase 1 says that a node has every window its new operator set reads. In phase 2 each node says how far it has worked,
and works on no head after that until it knows the same of all others. The largest of these times is the position: no
head from there on has been worked on anywhere, and all nodes find the same one. Old and new operator sets then run side
by side, each for its own heads.
"""

from dataclasses import dataclass, field
from typing import Any

from midstream.sites.operator_set import OperatorSet, read_operator_set


@dataclass
class TwoPhase:
    """A migration that has no position yet, as one of the affected nodes sees it."""

    number: int
    operators: OperatorSet
    others: tuple[str, ...]
    """The other affected nodes."""
    after_us: int
    """The position of the modification before: this one takes effect no earlier."""
    missing: set[str] = field(default_factory=set)
    """Streams whose windows were requested."""
    local: set[str] = field(default_factory=set)
    """Others that are local-ready."""
    positions: dict[str, int] = field(default_factory=dict)
    """How far others that are global-ready have worked."""
    is_local_ready: bool = False
    worked_us: int | None = None
    """How far this node has worked, once it is global-ready; it holds still there."""

    @property
    def agreed_us(self) -> int | None:
        """Return the position, once all have said how far they are."""
        if self.worked_us is None or len(self.positions) < len(self.others):
            return None
        return max([self.worked_us, *self.positions.values()])

    def to_json(self) -> dict[str, Any]:
        """Return the migration as JSON holds it."""
        return {
            "number": self.number,
            "operators": self.operators.to_json(),
            "others": list(self.others),
            "after_us": self.after_us,
            "missing": sorted(self.missing),
            "local": sorted(self.local),
            "positions": self.positions,
            "is_local_ready": self.is_local_ready,
            "worked_us": self.worked_us,
        }

    @staticmethod
    def read(written: dict[str, Any]) -> "TwoPhase":
        """Read a migration that `to_json` has written."""
        sets = {"missing": set(written["missing"]), "local": set(written["local"])}
        operators = read_operator_set(written["operators"])
        return TwoPhase(**{**written, **sets, "operators": operators, "others": tuple(written["others"])})
