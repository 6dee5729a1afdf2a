"""Six streams joined on one key: 10,000 rows/s each, 10 s windows, 100,000 keys, about one result per input row."""

from typing import Any

from benchmarks.measure import Progress, measure
from benchmarks.workload import Workload, equi_join


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of the run."""
    return measure(Workload(6, equi_join(6)), int(seconds or 40), seed, progress)
