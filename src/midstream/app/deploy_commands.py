"""Commands for programs that Midstream has adopted: `midstream deploy | rollback | versions`.

They write into the checkpoint and read from it; the process that runs the program may be another one.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperCommand

from midstream.app.asking import CheckpointFolder, WaitSeconds, fail, running, say, wait_for_record
from midstream.app.show import wide_console
from midstream.app.status import span
from midstream.app.tables import print_facts
from midstream.live.adopted.ask import ask_deploy, ask_rollback
from midstream.live.adopted.gate_log import BEFORE_SWITCH, OPEN, REFUSED, ROLLED_BACK
from midstream.live.adopted.record import describe
from midstream.live.adopted.request import METHODS, NO, REFUSE, STRATEGIES
from midstream.live.checkpoint import Checkpoint
from midstream.model.errors import MidstreamError
from midstream.spark.available import require_pyspark


class DeployCommand(TyperCommand):
    """A command whose `--verify` may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        return super().parse_args(ctx, [f"--verify={REFUSE}" if arg == "--verify" else arg for arg in args])


def deploy_command(
    checkpoint: CheckpointFolder,
    build: Annotated[str, typer.Argument(metavar="FILE.py:FUNCTION", help="The new program.")],
    strategy: Annotated[
        str | None, typer.Option("--strategy", help=f"Of equal meaning: {', '.join(STRATEGIES)}.")
    ] = None,
    change: Annotated[str | None, typer.Option("--change", help=f"Of new meaning: {', '.join(METHODS)}.")] = None,
    history: Annotated[
        str | None,
        typer.Option("--history", help="How much event time the new program reads first, e.g. '10 minutes'."),
    ] = None,
    verify: Annotated[
        str,
        typer.Option(
            "--verify",
            metavar="[=report]",
            help="Compare both outputs; a difference refuses the switch. With =report it only says what differs.",
        ),
    ] = NO,
    segments: Annotated[
        int | None, typer.Option("--segments", help="How many micro-batches with rows are compared (5).")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Roll back when it gets no further for so long ('2 minutes').")
    ] = None,
    grace: Annotated[
        str | None, typer.Option("--grace", help="How long the old program stays to go back to ('10 minutes').")
    ] = None,
    allow_schema_change: Annotated[
        bool, typer.Option("--allow-schema-change", help="The output may have other columns.")
    ] = False,
    wait: WaitSeconds = 600.0,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask, and do not wait for the switch.")] = False,
) -> None:
    """Put another version of an adopted program in place of the one that runs; nothing is lost, nothing comes twice.

    The new version gets a checkpoint of its own, reads what it needs of the journal while the old one answers, and
    takes over between two micro-batches. If it fails before, or gets no further, the old one simply goes on. Afterwards
    `midstream rollback` goes back as long as the grace lasts.

    **The same meaning, written otherwise** (a migration):

    - **general-hybrid** reads the history while the old version answers. The default.
    - **general-parallel-track** starts with the next rows and waits until `--history` has passed.
    - **general-moving-state** pauses the output meanwhile, and computes the least.

    `--history` must cover the longest window or join, and the watermark's delay. Without it the whole journal is read.

    **Another meaning** (`--change`): **immediate** stops the old version at a position and starts the new one there;
    **graceful-immediate** keeps the old one until the new one has a first answer. With `--history` the new one answers
    as if it had always run.

    Example: `midstream deploy checkpoint/ hourly.py:build --history "1 hour" --verify`

    Example: `midstream deploy checkpoint/ daily.py:build --change immediate --history "1 day"`
    """
    held, status = adopted(checkpoint)
    if change is not None and strategy is not None:
        raise MidstreamError("--strategy is for the same meaning and --change for another one: say one of them")
    options: dict[str, Any] = {"history": history, "segments": segments, "timeout": timeout, "grace": grace}
    options |= {"verify": verify, "allow_schema_change": allow_schema_change}
    identity = ask_deploy(held, build, change is not None, change or strategy, options)
    if no_wait or wait == 0:
        print(f"{status['name']} has been asked to deploy {build}; `midstream versions {checkpoint}` says how it goes")
        return
    record = _wait(held, identity, wait)
    if record is None:
        fail(f"{status['name']} has reported nothing of the deployment for {wait:g} s; its events will")
    if "to_version" not in record and record["state"] != REFUSED:
        fail(f"{status['name']} {record['state']} before the deployment was over; it goes on when the query does")
    if record["state"] in (REFUSED, ROLLED_BACK):
        raise MidstreamError(f"{status['name']} goes on as it was: {record['reason']}")
    if record["state"] in BEFORE_SWITCH:
        fail(f"after {wait:g} s the deployment is {record['state']}; it goes on")
    print(f"{status['name']} answers with version {record['to_version']} from segment {record['position'] + 1} on")
    if record.get("difference"):
        say(f"the outputs differ in {record['differing']} segments: {record['difference']}")


def rollback_command(checkpoint: CheckpointFolder, wait: WaitSeconds = 60.0) -> None:
    """Give up the newest version of an adopted program.

    Before the switch the old version simply goes on. After it, within the grace, the old one, which has kept up,
    answers again from the next micro-batch on: nothing is lost, nothing comes twice.

    Example: `midstream rollback checkpoint/`
    """
    held, status = adopted(checkpoint)
    deployment = status.get("deployment") or {}
    if deployment.get("state") not in OPEN:
        raise MidstreamError(f"{status['name']} has no version to go back to")
    ask_rollback(held)
    if wait == 0:
        print(f"{status['name']} has been asked to roll back")
        return
    identity = deployment["identity"]
    record = wait_for_record(held, "deployment", identity, OPEN, wait, lambda record, events: None)
    if record is None or record["state"] != ROLLED_BACK:
        fail(f"{status['name']} has not rolled back within {wait:g} s")
    print(f"{status['name']} answers with version {deployment['from_version']} again")


def versions_command(
    checkpoint: CheckpointFolder,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List the versions of an adopted program, how far each is, and how its last deployment goes or went.

    Example: `midstream versions checkpoint/`
    """
    held = Checkpoint.existing(checkpoint)
    status = held.read_status()
    if not status.get("adopted"):
        raise MidstreamError(f"{checkpoint} has a query of Midstream's own: see `midstream registered`")
    past = describe(held.events.all())
    if as_json:
        keys = ("name", "state", "version", "segment", "published", "versions", "turns", "deployment")
        print(json.dumps({**{key: status.get(key) for key in keys}, "deployments": past}, indent=1))
        return
    console = wide_console()
    table = Table(title=f"{status['name']}: {status['state']}", title_justify="left")
    for column in ("version", "program", "", "from segment", "behind"):
        table.add_column(column)
    for one in status.get("versions", []):
        behind = "" if one["behind"] is None else f"{one['behind']:,} segments"
        table.add_row(str(one["version"]), one["build"], one["role"], str(one["first"] or ""), behind)
    console.print(table)
    if status.get("deployment"):
        print_facts(console, "Last deployment", deployment_facts(status["deployment"]))


def deployment_facts(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what people want to know of a deployment.

    >>> facts = deployment_facts({"asked": "migration by general-hybrid", "from_version": 1, "to_version": 2,
    ...     "state": "catching up", "caught_up": 0.42, "ends_in_s": 12.0, "verify": "no"})
    >>> [text for _, text in facts]
    ['version 1 to version 2, migration by general-hybrid', 'catching up: 42 %, about 12 s to go']
    """
    found = [("what", f"version {record['from_version']} to version {record['to_version']}, {record['asked']}")]
    state = record["state"]
    if state in BEFORE_SWITCH and "caught_up" in record:
        state += f": {record['caught_up']:.0%}".replace("%", " %")
        if record.get("ends_in_s"):
            state += f", about {span(record['ends_in_s'])} to go"
    found.append(("state", state))
    if record.get("position") is not None:
        found.append(("switched", f"after segment {record['position']}"))
    if record.get("compared"):
        said = record.get("difference") or "no difference"
        found.append(("compared", f"segments {record['compare_after'] + 1} to {record['compared']}: {said}"))
    if record.get("reason"):
        found.append(("reason", record["reason"]))
    return found


def adopted(checkpoint: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """Return the checkpoint and the status of an adopted program that runs."""
    held, status = running(checkpoint, adopted=True)
    if not status.get("adopted"):
        raise MidstreamError(
            f"{checkpoint} has a query of Midstream's own: `midstream migrate` and `midstream change` are for those"
        )
    if status.get("ends_by_itself"):
        raise MidstreamError(f"query '{status['name']}' ends by itself: deploy while it runs on")
    require_pyspark()
    return held, status


def _wait(held: Checkpoint, identity: str, seconds: float) -> dict[str, Any] | None:
    """Wait until a deployment has switched or was given up, saying how it goes."""
    shown: list[str] = []

    def look(record: dict[str, Any] | None, events: list[dict[str, Any]]) -> None:
        now = held.read_status().get("deployment") or {}
        if now.get("identity") == identity:
            line = dict(deployment_facts(now))["state"]
            if shown[-1:] != [line]:
                shown.append(line)
                say(line)

    return wait_for_record(held, "deployment", identity, BEFORE_SWITCH, seconds, look)
