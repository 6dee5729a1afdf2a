"""Commands that change what a running query on Spark means: `midstream change | control | register ...`.

They plan, check and write into the checkpoint; the query reads it there. The query itself may run on another machine.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from midstream.app.asking import CheckpointFolder, WaitSeconds, ended, fail, running, say, wait_for, wait_for_record
from midstream.app.changes import guarantee_lines, print_changes
from midstream.app.show import wide_console
from midstream.app.status import reached, under_way
from midstream.change.record import OPEN
from midstream.change.request import CONTROLS, METHODS, ChangeRequest, ControlRequest
from midstream.engine.control.controls import CHANGE, CONTROL
from midstream.live.change import (
    PreparedChange,
    open_checkpoint,
    prepare_change_to,
    prepare_registered,
    register_text,
)
from midstream.live.checkpoint import Checkpoint
from midstream.live.repository import registered, remove_registered
from midstream.local.changes import query_text
from midstream.model.errors import MidstreamError
from midstream.model.time import format_instant
from midstream.spark.available import require_pyspark

HAPPENED = {
    "fstart": "the newest version starts anew with the rows from there on, the others have stopped",
    "istop": "nothing leaves any more; `midstream control CHECKPOINT fstart` starts it anew",
    "dstop": "only results that depend on an older row still leave",
    "abort": "the new version has stopped, the old one goes on",
}
"""What a control element has done, after the position."""


def change_command(
    checkpoint: CheckpointFolder,
    new: Annotated[
        str, typer.Argument(metavar="NEW.sql", help="The query to go to: a file, the SQL text, or a registered number.")
    ],
    method: Annotated[str, typer.Option("--method", help=f"{', '.join(METHODS)}.")] = "drain",
    order: Annotated[
        str | None, typer.Option("--order", help="drain: output in stream order (when not given) or query order.")
    ] = None,
    allow_schema_change: Annotated[
        bool, typer.Option("--allow-schema-change", help="The output may have other columns.")
    ] = False,
    audit: Annotated[bool, typer.Option("--audit", help="Count what is lost, too, which means computing it.")] = False,
    plan: Annotated[str | None, typer.Option("--plan", help="Join order of the new query, e.g. '((a b) c)'.")] = None,
    join: Annotated[str, typer.Option("--join", help="auto, hash or nested-loop.")] = "auto",
    wait: WaitSeconds = 600.0,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask, and do not wait for it to be over.")] = False,
) -> None:
    """Change what a running query means: go on with another query, in one of five ways.

    - **immediate** stops the old query at once; what it had begun is lost.
    - **delayed-drain** lets it finish what it has begun, then starts the new one.
    - **drain** lets it finish beside the new one; nothing is lost.
    - **graceful-immediate** keeps it until the new one answers, then stops it.
    - **graceful-drain** keeps it until the new one answers, then lets it finish.

    It says what that guarantees for these two queries, asks, and shows how it goes. A change that cannot be honoured is
    refused in one sentence and the query goes on untouched. `_version` in the output says which query gave a row.

    Example: `midstream change checkpoint/ new.sql --method drain --order query`
    """
    held, status = running(checkpoint, reads_control=True)
    name = status["name"]
    if join not in ("auto", "hash", "nested-loop"):
        raise MidstreamError(f"--join is '{join}'; it can be auto, hash, nested-loop")
    number = int(new) if new.strip().isdigit() else None
    text, called = query_text(new) if number is None else ("", f"registered query {number}")
    options = {"method": method, "order": order, "allow_schema_change": allow_schema_change, "plan": plan, "join": join}
    request = ChangeRequest.of(text, {**options, "audit": audit})
    require_pyspark()
    prepared = _prepared(checkpoint, number if number is not None else text, request, called)
    for line in guarantee_lines(prepared.label, prepared.guarantees):
        say(line)
    if prepared.schema:
        say(f"the output changes: {'; '.join(prepared.schema)}")
    identity = prepared.send()
    if no_wait or wait == 0:
        print(f"{name} has been asked to change; its events report {identity}")
        return
    record = _wait_for_change(held, identity, wait)
    if record is None:
        fail(f"{name} has reported nothing of the change for {wait:g} s; its events will say what became of it")
    if "to_version" not in record:
        fail(f"{name} {record['state']} before the change was over; it goes on when the query does")
    print_changes(wide_console(), [record])
    if record["state"] in OPEN:
        fail(f"after {wait:g} s the change is {record['state']}; it goes on")
    if record["state"] != "finished":
        fail(f"{name} does not go on as version {record['to_version']} alone: the change was {record['state']}")


def register_command(
    checkpoint: CheckpointFolder,
    new: Annotated[str, typer.Argument(metavar="NEW.sql", help="The query: a file, or the SQL text.")],
    plan: Annotated[str | None, typer.Option("--plan", help="Its join order, e.g. '((a b) c)'.")] = None,
    join: Annotated[str, typer.Option("--join", help="auto, hash or nested-loop.")] = "auto",
) -> None:
    """Plan and check a query that a run can change to later, and keep it in the checkpoint; nothing changes.

    `midstream change CHECKPOINT NUMBER` goes to it. Good for queries that must be there at once when they are needed,
    such as a cheaper one for times of high load.

    Example: `midstream register checkpoint/ cheap.sql`
    """
    text, called = query_text(new)
    require_pyspark()
    try:
        number = register_text(checkpoint, text, plan, join)
    except MidstreamError as error:
        raise MidstreamError(f"{called}: {error}") from error
    print(f"registered as query {number}; `midstream change {checkpoint} {number}` goes to it")


def registered_command(checkpoint: CheckpointFolder) -> None:
    """List the queries that a run can change to by number. Query 1 is the one it was first started with.

    Example: `midstream registered checkpoint/`
    """
    require_pyspark()
    held, catalog = open_checkpoint(checkpoint)
    for version in registered(held.versions, catalog, held.world).values():
        print(f"{version.number}: {' '.join(version.sql.split())}")


def unregister_command(
    checkpoint: CheckpointFolder, number: Annotated[int, typer.Argument(help="Its number; not 1.")]
) -> None:
    """Remove a registered query; what runs is not touched, and its number is not given again.

    Example: `midstream unregister checkpoint/ 2`
    """
    require_pyspark()
    held, catalog = open_checkpoint(checkpoint)
    remove_registered(held.versions, number, catalog)
    print(f"query {number} is not registered any more")


def _prepared(checkpoint: Path, wanted: str | int, request: ChangeRequest, called: str) -> PreparedChange:
    try:
        if isinstance(wanted, int):
            return prepare_registered(checkpoint, wanted, request)
        return prepare_change_to(checkpoint, wanted, request)
    except MidstreamError as error:
        raise MidstreamError(f"the query goes on as it was: {called}: {error}") from error


def _wait_for_change(held: Checkpoint, identity: str, seconds: float) -> dict[str, Any] | None:
    """Wait until a change is over, showing how it goes; return its last record, or the status of an ended query."""
    with _progress() as show:

        def look(record: dict[str, Any] | None, events: list[dict[str, Any]]) -> None:
            status = held.read_status()
            now = [c for c in status.get("changes", []) if c["identity"] == identity]
            if record is not None:
                now_at = reached(status.get("last_batch") or {})
                show("under way", f"{under_way(now[0] if now else record)}; now at {now_at}")
            elif any(e.get("id") == identity for e in events):
                show("read", "the change is read, and takes effect after every row that has been read by now")
            else:
                show("asked", "the change is asked for")

        return wait_for_record(held, CHANGE, identity, OPEN, seconds, look)


@contextmanager
def _progress() -> Iterator[Callable[[str, str], None]]:
    """Hand out what shows (state, sentence): a live line on a terminal, a line per state elsewhere."""
    if not sys.stderr.isatty():
        shown: list[str] = []

        def show(state: str, sentence: str) -> None:
            if shown[-1:] != [state]:
                shown.append(state)
                say(sentence)

        yield show
        return
    with Console(stderr=True).status("asking") as line:
        yield lambda state, sentence: line.update(escape(sentence))


def control_command(
    checkpoint: CheckpointFolder,
    control: Annotated[str, typer.Argument(help=f"{', '.join(CONTROLS)}.")],
    wait: WaitSeconds = 60.0,
) -> None:
    """Give a running query a control element, whatever versions of it run.

    - **fstart** starts the newest version anew with the rows from there on, and stops the others.
    - **istop** stops all versions: nothing leaves any more. The run itself goes on.
    - **dstop** drains all versions: only what depends on an older row still leaves.
    - **abort** gives a change up, as long as the old version has not stopped or begun to drain.

    It takes effect after every row that has been read by then. This command waits for that and says what happened.

    Example: `midstream control checkpoint/ abort`
    """
    request = ControlRequest(control)
    held, status = running(checkpoint, reads_control=True)
    name, word = status["name"], request.control.lower()
    identity = held.controls.send(CONTROL, control=word)
    if wait == 0:
        print(f"{name} has been given {word}; its events report {identity}")
        return
    event = wait_for(lambda: _controlled(held, identity) or ended(held), wait)
    if event is None:
        fail(
            f"{name} has reported nothing of {word} for {wait:g} s; it takes effect once time has passed what was read"
        )
    if "control" not in event:
        fail(f"{name} {event['state']} before {word} took effect; it goes on when the query does")
    if event["state"] == "refused":
        raise MidstreamError(f"{name} goes on as it was: {event['reason']}")
    print(f"{name}: {word} took effect at {format_instant(event['position_us'])}: {HAPPENED[word]}")


def _controlled(held: Checkpoint, identity: str) -> dict[str, Any] | None:
    """Return the event that says what a control element has done."""
    found = [e for e in held.events.all() if e.get("event") == CONTROL and e.get("identity") == identity]
    return found[-1] if found else None
