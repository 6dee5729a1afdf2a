"""Four streams joined on a string key: hashed, indexed by the hash, verified byte by byte."""

from typing import Any

from benchmarks.measure import Progress, measure
from benchmarks.workload import Workload, equi_join


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of the run."""
    return measure(Workload(4, equi_join(4), key_type="string"), int(seconds or 40), seed, progress)
