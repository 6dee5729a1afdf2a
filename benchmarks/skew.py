"""Four streams joined on one key, the first with Zipf(1.2) keys: one key in five is the same, output in bursts."""

from typing import Any

from benchmarks.measure import Progress, measure
from benchmarks.workload import Workload, equi_join


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of the run."""
    return measure(Workload(4, equi_join(4), zipf=1.2), int(seconds or 60), seed, progress)
