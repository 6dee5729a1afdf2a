"""The checkpoint of a query that does not run: what it would have said."""

import os

from midstream.live.checkpoint import Checkpoint

BATCH = {
    "batch": 7, "at": 1.0, "version": 8, "rows_in": 20, "rows_out": 5, "late": 1, "waiting": 3,
    "released_us": 1_500_000, "predicate_evaluations": 9, "state_tuples": 40, "state_bytes": 12_000,
    "rebuilt": 0, "unshared": 0, "why_unshared": "", "bucket_ms": 5.0, "controls": [], "wall_ms": 840.0,
}  # fmt: skip


def tell(held: Checkpoint, state: str, **more: object) -> None:
    status = {"name": "pairs", "state": state, "pid": os.getpid(), "plan": "(a b)", "buckets": 2, "rows_in": 1200}
    status |= {"rows_out": 345, "late": 1, "rows_in_per_s": 99.6, "rows_out_per_s": 1.0, "last_batch": BATCH}
    held.write_status(status | {"partitioning": "hash a.k = b.k", "error": None} | more)
