"""Bucket spec: what all buckets of a query share."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from midstream.engine.bucket.state import Due
from midstream.engine.control.runs import Runs
from midstream.engine.run.contract import RunSpec
from midstream.model.timing import Timing
from midstream.plan.plan import Plan


@dataclass(frozen=True)
class BucketSpec:
    """What all buckets of a query share."""

    plan_of: Callable[[int], Plan]
    """Returns the plan a version was started with."""
    timings: dict[int, Timing]
    """What is allowed of the rows of each stream that is read, by its position; of recorded streams nothing is left to
    judge."""
    recorded: bool
    """Rows come in order, with the offsets of a recording; else offsets are given as rows come."""
    labels: tuple[int, ...]
    """What all buckets are called; the first one counts rows that every bucket gets."""
    run: RunSpec = field(default_factory=RunSpec)
    schedule: tuple[Due, ...] = ()
    """What is to happen, known beforehand, in order of time."""
    audit: bool = False
    """Changes count what they lose, unless they say otherwise."""
    runs: Runs = field(default_factory=Runs)
    """The runs of a live query: a drain is for one of them."""

    def of_batch(self, number: int | None) -> "BucketSpec":
        """Return what all buckets share in a micro-batch.

        One that an earlier run has planned is judged as that run did, whatever is allowed now: results of it may be
        there already, and when it is run again they are to be the same.
        """
        before = self.runs.timings_before
        if number is None or before is None or number >= self.runs.first:
            return self
        return replace(self, timings=dict(before))

    def ahead_us(self, position: int) -> int | None:
        """Return how far ahead rows of a stream may be; None: as far as they like."""
        return self.timings[position].ahead_us if position in self.timings else None

    @property
    def judges_ahead(self) -> bool:
        """Return whether rows of some stream may be too far ahead."""
        return any(timing.ahead_us is not None for timing in self.timings.values())

    @property
    def alone(self) -> bool:
        """Return whether there is one bucket."""
        return len(self.labels) <= 1
