"""Effort: what operators have done, counted instead of timed."""

from dataclasses import dataclass

ENTRY_COST = 50
"""What putting an entry into a state is taken to cost, in evaluations: room, copying, linking."""


@dataclass(frozen=True)
class Effort:
    """What has been done so far, counted, so that it is the same on every machine."""

    evaluations: int = 0
    """Pairs, tuples and values tested."""
    entries: int = 0
    """Entries put into states, rows of sources included."""
    probes: int = 0
    """Entries that have looked for partners in a state, those that found none included."""

    @property
    def cost(self) -> int:
        """Return what it is taken to cost, in evaluations."""
        return self.evaluations + ENTRY_COST * self.entries

    def __add__(self, other: "Effort") -> "Effort":
        return Effort(self.evaluations + other.evaluations, self.entries + other.entries, self.probes + other.probes)

    def __sub__(self, other: "Effort") -> "Effort":
        return Effort(self.evaluations - other.evaluations, self.entries - other.entries, self.probes - other.probes)
