"""Effort: what operators have done, counted instead of timed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """What has been done so far, counted, so that it is the same on every machine."""

    evaluations: int = 0
    """Pairs, tuples and values tested."""
    entries: int = 0
    """Entries put into states, rows of sources included."""
    probes: int = 0
    """Entries that have looked for partners in a state, those that found none included."""

    def __add__(self, other: "Effort") -> "Effort":
        return Effort(self.evaluations + other.evaluations, self.entries + other.entries, self.probes + other.probes)

    def __sub__(self, other: "Effort") -> "Effort":
        return Effort(self.evaluations - other.evaluations, self.entries - other.entries, self.probes - other.probes)
