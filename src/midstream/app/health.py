"""Whether a query is well: what `midstream health` looks at, in the status that is in its checkpoint.

status ──▶ does it run? has it said something of late? is it behind? do rows wait? ──▶ what is wrong, a sentence each
"""

import time
from typing import Annotated, Any

import typer

from midstream.app.asking import CheckpointFolder
from midstream.app.status import holding, lag_s, span
from midstream.live.checkpoint import Checkpoint

UNWELL = 1
"""What the command ends with when something is wrong."""


def health_command(
    checkpoint: CheckpointFolder,
    behind: Annotated[
        float | None, typer.Option("--behind", min=0, help="Seconds that event time may be behind the clock.")
    ] = None,
    waiting: Annotated[
        int | None, typer.Option("--waiting", min=0, help="Rows that may wait for other streams.")
    ] = None,
    quiet: Annotated[
        float | None, typer.Option("--quiet", min=0, help="Seconds that may pass without a micro-batch.")
    ] = None,
    slow: Annotated[
        float | None, typer.Option("--slow", min=0, help="Seconds that the last micro-batch may have taken.")
    ] = None,
) -> None:
    """Say whether a query is well, by an exit code: 0 it is, 1 something is wrong, 2 nobody can tell.

    It is not when it has failed, died, or was stopped. What more it has to keep to is up to you. For
    probes of Kubernetes, systemd and cron.

    Example: `midstream health checkpoint/ --behind 30 --quiet 60`
    """
    status = Checkpoint.existing(checkpoint).read_status()
    wrong = complaints(status, time.time(), behind, waiting, quiet, slow)
    name = status.get("name", "query")
    if wrong:
        print(f"{name} is not well: {'; '.join(wrong)}")
        raise typer.Exit(UNWELL)
    print(f"{name} is well")


def complaints(
    status: dict[str, Any],
    now: float,
    behind: float | None = None,
    waiting: int | None = None,
    quiet: float | None = None,
    slow: float | None = None,
) -> list[str]:
    """Return what is wrong with a query, given its status, the time, and what it has to keep to.

    >>> complaints({"state": "failed", "error": "the disk is full"}, 0.0)
    ['it has failed: the disk is full']
    >>> batch = {"waiting": 70, "wall_ms": 900.0, "released_us": 40_000_000}
    >>> running = {"state": "running", "updated": 95.0, "last_batch": batch}
    >>> complaints(running, 100.0), complaints(running, 100.0, quiet=3)
    ([], ['it has said nothing for 5.00 s'])
    """
    state = status["state"]
    if state != "running":
        said = {"died": "it died without a word", "not started": "it has not started yet"}.get(state, f"it has {state}")
        return [f"{said}: {status['error']}" if status.get("error") else said]
    batch, found = status.get("last_batch") or {}, []
    since = now - status["updated"] if "updated" in status else None
    if quiet is not None and since is not None and since > quiet:
        found.append(f"it has said nothing for {span(since)}")
    late_s = lag_s(batch, now)
    if behind is not None and late_s is not None and late_s > behind:
        found.append(f"event time is {span(late_s)} behind the clock")
    if waiting is not None and batch.get("waiting", 0) > waiting:
        held = holding(batch)
        found.append(f"{batch['waiting']:,} rows wait" + (f" {held}" if held else ""))
    took_s = batch.get("wall_ms", 0.0) / 1000
    if slow is not None and took_s > slow:
        found.append(f"its last micro-batch took {span(took_s)}")
    return found
