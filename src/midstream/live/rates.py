"""Rates: rows per second over the last micro-batches."""

from collections import deque
from dataclasses import dataclass

SPAN_S = 10.0


class Rates:
    """Rows of the micro-batches of the last ten seconds, at least of the last one."""

    def __init__(self) -> None:
        self._batches: deque[tuple[float, float, int, int]] = deque()

    def add(self, now: float, rows_in: int, rows_out: int, took_s: float) -> None:
        """Note a micro-batch that ended now.

        >>> rates = Rates()
        >>> rates.add(100.0, 50, 10, took_s=0.5)
        >>> rates.add(101.5, 250, 50, took_s=0.5)
        >>> rates.per_second()
        {'rows_in_per_s': 150.0, 'rows_out_per_s': 30.0}
        """
        self._batches.append((now - took_s, now, rows_in, rows_out))
        while self._batches[0][1] < now - SPAN_S:
            self._batches.popleft()

    def per_second(self) -> dict[str, float]:
        """Return the rates, from the start of the oldest micro-batch to the end of the latest."""
        if not self._batches:
            return {"rows_in_per_s": 0.0, "rows_out_per_s": 0.0}
        span_s = max(self._batches[-1][1] - self._batches[0][0], 1e-3)
        rows_in, rows_out = (sum(b[k] for b in self._batches) for k in (2, 3))
        return {"rows_in_per_s": rows_in / span_s, "rows_out_per_s": rows_out / span_s}


@dataclass(frozen=True)
class Stretch:
    """Micro-batches of one phase: what came out per second of event time."""

    phase: str
    plan: str
    batches: int
    results_per_s: float
    batch_s: float
    """The median time a micro-batch took."""
