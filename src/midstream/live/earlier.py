"""What the status says of earlier runs of a query: its plan, and what has been counted.

A status is written after each micro-batch and may be behind, where a driver has died before: what the next micro-batch
reports counts.
"""

from dataclasses import replace

from midstream.engine.results.reports import BatchSummary
from midstream.live.checkpoint import Checkpoint
from midstream.live.query import LiveQuery

TOTALS = ("rows_in", "rows_out", "late", "ahead")
"""What is counted over all runs."""


def reported_before(checkpoint: Checkpoint, live: LiveQuery) -> BatchSummary:
    """Return what is known of the plan before the first micro-batch of a run."""
    last = checkpoint.read_status().get("last_batch") or {}
    row = last.get("row", "")
    if not checkpoint.controls.has(row):
        row = ""  # the status was left by a driver that was behind: the first micro-batch knows better
    known = {name: last[name] for name in ("version", "plan", "join") if name in last}
    summary = BatchSummary(**{"row": row, "join": live.plan().method, **known})
    return replace(summary, plan=str(live.running(summary)))


def earlier_totals(checkpoint: Checkpoint) -> tuple[dict[str, int], int]:
    """Return what earlier runs have counted, and the last micro-batch in it: recovery may run that one again."""
    status = checkpoint.read_status()
    last = status.get("last_batch") or {}
    return {k: int(status.get(k, 0)) for k in TOTALS}, int(last.get("batch", -1))
