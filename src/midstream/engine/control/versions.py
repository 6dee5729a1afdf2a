"""Versions of a query: their plans by number, and whose rows are wanted."""

from collections.abc import Sequence
from dataclasses import dataclass

from midstream.plan.plan import Plan


@dataclass(frozen=True)
class KnownVersions:
    """Versions that are all known beforehand."""

    plans: tuple[Plan, ...]

    def plan_of(self, number: int) -> Plan:
        """Return the plan a version was started with; the first is number 1."""
        return self.plans[number - 1]

    def wanted(self) -> Sequence[tuple[int, Plan]]:
        """Return the versions whose rows are wanted: any may start."""
        return list(enumerate(self.plans, 1))
