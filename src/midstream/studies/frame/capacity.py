"""Capacity: a simulated processor of given speed takes the micro-batches of a real run in turn, on virtual time.

    micro-batches with what they cost ──▶ queue ──▶ processor ──▶ when each was through, what waited, what left

What a micro-batch costs is counted by the engine while it runs it: evaluations of predicates and entries put into
states. So pauses, bursts and spare capacity are the same on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Schedule:
    """When a processor was through with micro-batches of a second each, in seconds."""

    arrived: Floats
    """When the last row of each micro-batch was there."""
    begun: Floats
    through: Floats
    cost: Floats

    @property
    def longest_wait_s(self) -> float:
        """Return the most a result has waited, from its latest row being there."""
        return float((self.through - self.arrived).max())

    def per_second(self, amounts: npt.NDArray[np.number], seconds: int) -> Floats:
        """Spread what each micro-batch brings over the time the processor works on it, second by second."""
        out = np.zeros(seconds)
        for amount, begin, end in zip(amounts.tolist(), self.begun, self.through, strict=True):
            _spread(out, float(amount), begin, end)
        return out

    def left(self, amounts: npt.NDArray[np.number], seconds: int) -> Floats:
        """Return what leaves in each second, when all that a micro-batch brings leaves at its end."""
        out = np.zeros(seconds)
        for amount, end in zip(amounts.tolist(), self.through, strict=True):
            if int(end) < seconds:
                out[int(end)] += amount
        return out

    def waiting(self, rows: npt.NDArray[np.number], seconds: int) -> Floats:
        """Return how many rows wait at the end of each second."""
        ends = np.arange(1, seconds + 1, dtype=np.float64)
        there = (self.arrived[None, :] <= ends[:, None]) @ rows.astype(np.float64)
        done = (self.through[None, :] <= ends[:, None]) @ rows.astype(np.float64)
        return np.asarray(there - done)

    def at_end_of(self, values: npt.NDArray[np.number], before: float, seconds: int) -> Floats:
        """Return a quantity at the end of each second, as the micro-batches that were through have left it.

        While the processor works on one, the quantity moves evenly to what it will be.
        """
        ends = np.arange(1, seconds + 1, dtype=np.float64)
        known = np.concatenate([[before], values.astype(np.float64)])
        times = np.empty(2 * len(values))
        times[0::2], times[1::2] = self.begun, np.maximum(self.through, self.begun + 1e-9)
        levels = np.empty(2 * len(values))
        levels[0::2], levels[1::2] = known[:-1], known[1:]
        return np.interp(ends, times, levels)


def _spread(out: Floats, amount: float, begin: float, end: float) -> None:
    if end - begin < 1e-9:
        if int(end) < len(out):
            out[int(end)] += amount
        return
    for second in range(int(begin), min(len(out), int(end) + 1)):
        share = min(end, second + 1.0) - max(begin, float(second))
        if share > 0:
            out[second] += amount * share / (end - begin)


def schedule(costs: Sequence[float] | Floats, speed: float, first_cost: float = 0.0) -> Schedule:
    """Let a processor that does `speed` a second take micro-batches that arrive each second, in turn.

    `first_cost` comes before the first of them, such as states that are computed at a switch of plans.

    >>> schedule([1.0, 1.0, 1.0], speed=2.0, first_cost=4.0).through.tolist()
    [2.5, 3.0, 3.5]
    """
    cost = np.asarray(costs, np.float64)
    arrived = np.arange(1, len(cost) + 1, dtype=np.float64)
    begun, through = np.empty(len(cost)), np.empty(len(cost))
    free = first_cost / speed
    for place, needed in enumerate(cost):
        begun[place] = max(free, arrived[place])
        free = through[place] = begun[place] + needed / speed
    return Schedule(arrived, begun, through, cost)
