"""Windows that hold ten times the rows at the same output rate: 100 s and 1,000,000 keys beside 10 s and 100,000.

`cost_ratio` is the time per input row with the large windows over that with the small ones, in this run.
"""

from typing import Any

from benchmarks.measure import Progress, measure
from benchmarks.workload import Workload, equi_join


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of the large windows, and those of the small ones under `small`."""
    span = int(seconds or 40)
    small = measure(Workload(4, equi_join(4)), span, seed, progress)
    large = measure(Workload(4, equi_join(4, 100), window_s=100, keys=1_000_000), span, seed, progress)
    return {**large, "cost_ratio": small["rows_per_s"] / large["rows_per_s"], "small": small}
