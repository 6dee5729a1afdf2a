"""Two streams joined by a band of values, nested loops: 1,000 rows/s each, 10 s windows, about one result per row."""

from typing import Any

from benchmarks.measure import Progress, measure
from benchmarks.workload import Workload

SQL = """SELECT a.v AS v_a, b.v AS v_b FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS]
WHERE a.v >= b.v - 50 AND a.v < b.v + 50"""


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of the run."""
    result = measure(
        Workload(2, SQL, rows_per_second=1_000, payload_below=1_000_000), int(seconds or 20), seed, progress
    )
    return {**result, "evaluations_per_s": result["predicate_evaluations"] / result["wall_s"]}
