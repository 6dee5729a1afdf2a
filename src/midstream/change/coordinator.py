"""Coordinator: tells the operators of a version to drain, and asks the dominant one whether that is over.

On a linear plan the last window dominates: it decides which results are still to come. Those below it go on feeding it.
"""

from collections.abc import Sequence

from midstream.operators.contract.pipeline import Pipeline


class Coordinator:
    """The drain of one version over all its buckets."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._pipelines = pipelines
        self.position_us: int | None = None

    def drain(self, position_us: int) -> None:
        """Watch for the end of what began before a position."""
        self.position_us = position_us
        for pipeline in self._pipelines:
            pipeline.drain(position_us)

    def drained_us(self, seq: int) -> int | None:
        """Return from which event time on nothing older is left in any bucket; None: there is something left."""
        if self.position_us is None:
            return None
        over = [p.drained_us(seq) for p in self._pipelines]
        return None if any(o is None for o in over) else max(o for o in over if o is not None)

    @property
    def by_rows(self) -> bool:
        """Tell whether rows must come one instant at a time to say exactly when a drain is over."""
        return any(p.counts_rows for p in self._pipelines)
