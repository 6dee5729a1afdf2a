"""The record of modifications: when each began and why, from which operators to which, who migrated, until when."""

from dataclasses import dataclass, field
from typing import Any

from midstream.sites.operator_set import OperatorSet, operator_sets
from midstream.sites.plan import SitesPlan
from midstream.sites.planner import Triggered
from midstream.sites.two_phase import TwoPhase


@dataclass
class Modification:
    """One modification, as those outside the nodes see it. Times of the network, but for positions: event times."""

    number: int
    began_us: int
    affected: list[str]
    position_us: int | None = None
    ended_us: int | None = None
    missing: set[str] = field(default_factory=set)
    """Affected nodes that have not migrated."""
    before: dict[str, OperatorSet] = field(default_factory=dict)
    after: dict[str, OperatorSet] = field(default_factory=dict)


class Modifications:
    """All modifications of a run."""

    def __init__(self, plan: SitesPlan) -> None:
        self.running = dict(operator_sets(plan))
        """The operator sets that nodes have now."""
        self.all: dict[int, Modification] = {}
        self.triggers: list[tuple[int, str, Triggered]] = []

    def trigger(self, node: str, triggered: Triggered) -> None:
        """Note that a node has reported changed statistics."""
        self.triggers.append((triggered.at_us, node, triggered))

    def begin(self, node: str, migration: TwoPhase, now_us: int) -> None:
        """Note that a node migrates."""
        number = migration.number
        if number not in self.all:
            affected = sorted((node, *migration.others))
            self.all[number] = Modification(number, now_us, affected, missing=set(affected))

    def end(self, node: str, number: int, position_us: int, operators: OperatorSet, now_us: int) -> None:
        """Note that a node has migrated."""
        if number not in self.all:  # it has begun and ended between two looks
            self.all[number] = Modification(number, now_us, [node], missing={node})
        found = self.all[number]
        found.position_us = position_us
        found.before[node], found.after[node] = self.running[node], operators
        self.running[node] = operators
        found.missing.discard(node)
        if not found.missing:
            found.ended_us = now_us

    @property
    def latest(self) -> int:
        """Return the number of the last modification that is over; 0: none is."""
        return max((m.number for m in self.all.values() if m.ended_us is not None), default=0)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the modifications as a report has them."""
        found = []
        for m in sorted(self.all.values(), key=lambda m: m.number):
            before = [t for t in self.triggers if m.position_us is None or t[0] <= m.position_us]
            found.append(
                {
                    "number": m.number,
                    "when": m.began_us,
                    "trigger": before[-1][1] if before else None,
                    "from": {node: str(m.before[node]) for node in m.affected if node in m.before},
                    "to": {node: str(m.after[node]) for node in m.affected if node in m.after},
                    "affected": m.affected,
                    "position": m.position_us,
                    "ended": m.ended_us,
                }
            )
        return found
