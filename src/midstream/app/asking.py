"""Asking a running query for something from another process: it must run, and one waits for what it reports."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from midstream.live.checkpoint import Checkpoint
from midstream.model.errors import MidstreamError

CheckpointFolder = Annotated[Path, typer.Argument(help="The checkpoint folder of the query.")]
WaitSeconds = Annotated[float, typer.Option("--wait", min=0, help="Wait this many seconds for it to happen.")]
LOOK_S = 0.1
Found = TypeVar("Found")


def running(folder: Path, reads_control: bool = False, adopted: bool = False) -> tuple[Checkpoint, dict[str, Any]]:
    """Return the checkpoint and the status of a query that runs, and reads what is asked of it if that matters.

    `adopted`: it may be a program of the user's, which takes deployments instead of migrations and changes.
    """
    held = Checkpoint.existing(folder)
    status = held.read_status()
    if status["state"] != "running":
        state = {"died": "it died without a word", "not started": "it has not started yet"}.get(
            status["state"], f"it has {status['state']}"
        )
        raise MidstreamError(f"the query of {folder} is not running: {state}")
    status.setdefault("name", "the query")
    if status.get("adopted") and not adopted:
        raise MidstreamError(
            f"{folder} has a program of your own: `midstream deploy` puts another version in its place"
        )
    if reads_control and status.get("ends_by_itself"):
        raise MidstreamError(f"query '{status['name']}' ends by itself and reads no control while it runs")
    return held, status


def ended(held: Checkpoint) -> dict[str, Any] | None:
    """Return the status of a query that does not run any more."""
    status = held.read_status()
    return status if status["state"] != "running" else None


def wait_for(look: Callable[[], Found | None], seconds: float) -> Found | None:
    """Look until something is there or the time is over."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return found


def wait_for_record(
    held: Checkpoint,
    event: str,
    identity: str,
    unsettled: Sequence[str],
    seconds: float,
    show: Callable[[dict[str, Any] | None, list[dict[str, Any]]], None],
) -> dict[str, Any] | None:
    """Wait until something that was asked for is settled; return its last record, or the status of an ended query.

    `show` is given, at every look, the record so far and all events of that name.
    """
    deadline = time.monotonic() + seconds
    record: dict[str, Any] | None = None
    while time.monotonic() < deadline:
        events = [e for e in held.events.all() if e.get("event") == event]
        mine = [e for e in events if e.get("identity") == identity]
        record = mine[-1] if mine else None
        if record is not None and record["state"] not in unsettled:
            return record
        show(record, events)
        if (over := ended(held)) is not None:
            return over
        time.sleep(LOOK_S)
    return record


def say(sentence: str) -> None:
    """Say something to people, not to programs."""
    print(f"midstream: {sentence}", file=sys.stderr, flush=True)


def fail(sentence: str) -> NoReturn:
    """Say what went wrong and end with 1."""
    say(sentence)
    raise typer.Exit(1)
