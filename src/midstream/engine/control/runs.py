"""Runs: which run of a query planned which micro-batch, so that a stop or a drain ends the run it was sent to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from midstream.model.timing import Timing


@dataclass(frozen=True)
class Runs:
    """The runs of a query in order, each with the first micro-batch that it planned.

    A micro-batch that is run again, by whatever run, is obeyed as it was the first time: that depends on its number
    alone.

    >>> runs = Runs(((1, 0), (2, 7)))
    >>> runs.of(6), runs.of(7), runs.latest
    (1, 2, 2)
    >>> runs.meant({"do": "drain", "run": 1}, 7), runs.meant({"do": "drain"}, 7)
    (False, True)
    """

    begun: tuple[tuple[int, int], ...] = ()
    timings_before: Mapping[int, Timing] | None = None
    """What earlier runs allow of the times of rows, by the position of the stream, in the last micro-batch that they
    have planned; None: nobody has written it down."""

    @property
    def latest(self) -> int:
        """Return the number of the latest run; 0 before the first."""
        return self.begun[-1][0] if self.begun else 0

    @property
    def first(self) -> int:
        """Return the first micro-batch that the latest run has planned; 0 before the first run."""
        return self.begun[-1][1] if self.begun else 0

    def of(self, batch: int) -> int:
        """Return the run that planned a micro-batch."""
        return next((run for run, first in reversed(self.begun) if first <= batch), 0)

    def meant(self, control: Mapping[str, Any], batch: int) -> bool:
        """Return whether a control row that a micro-batch reads is for the run that planned it, or for any."""
        return control.get("run") in (None, self.of(batch))
