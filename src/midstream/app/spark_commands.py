"""Commands for queries on Spark: `midstream run | status | stop | snapshot | migrate | demo`.

`run` and `demo` start Spark. The others only read and write the checkpoint, and work from any process that can.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from midstream.app.asking import CheckpointFolder, WaitSeconds, ended, fail, running, say, wait_for, wait_for_record
from midstream.app.decided import decision_lines
from midstream.app.live import stopped_by_signals, watch
from midstream.app.migrations import print_migrations, print_stretches
from midstream.app.show import wide_console
from midstream.app.status import SHOWN_EVENTS, ending, facts, lag_s, print_events
from midstream.app.tables import print_facts
from midstream.engine.control.controls import DRAIN, MIGRATE, SNAPSHOT, STOP
from midstream.engine.planning.plans import check_hop_request
from midstream.live.checkpoint import SPARE, Checkpoint
from midstream.migrate.request import STRATEGIES, MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.model.format import whole
from midstream.plan.spec import is_order, parse_spec
from midstream.plan.tree import parse_tree
from midstream.spark.available import require_spark
from midstream.spark.pipeline_file import read_pipeline


def run_command(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline: TOML with a query, [streams.*], [sink] and [run].")],
) -> None:
    """Run a query on Spark until it is stopped, fails, or its sources end.

    It goes on where its checkpoint left off. A terminal shows it live, anything else gets a line per micro-batch.
    Ctrl-C stops it after the micro-batch that runs; so does `midstream stop` from elsewhere.

    Example: `midstream run pipeline.toml`
    """
    file = read_pipeline(pipeline)
    Checkpoint(file.checkpoint).check_free()
    require_spark()
    from midstream.app.launch import launch  # PySpark is an extra, and slow to import
    from midstream.spark.session import open_session

    log = file.checkpoint / "spark.log"
    say(f"starting Spark (its log: {log})")
    try:
        spark = open_session(file.master, file.spark, log)
    except OSError as error:
        raise MidstreamError(f"cannot write the checkpoint {file.checkpoint}: {error.strerror}") from error
    try:
        run = launch(file, spark)
        with stopped_by_signals(run.ask_to_end):
            _watch_to_the_end(run, f"{file.name} runs; stop it with Ctrl-C or: midstream stop {file.checkpoint}")
        say(f"{file.name} stopped: {ending(run.status())}")
    finally:
        spark.stop()


def status_command(
    checkpoint: CheckpointFolder,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Say how a query is doing: running, stopped, failed or died; rows, rates, state, lag, last events.

    Example: `midstream status checkpoint/`
    """
    held = Checkpoint.existing(checkpoint)
    status, events = held.read_status(), held.events.all()
    with whole(checkpoint / "status.json", SPARE):
        rows, late_s = facts(status), lag_s(status.get("last_batch") or {})
    if as_json:
        print(json.dumps(status | {"lag_s": late_s, "events": events[-SHOWN_EVENTS:]}, indent=1))
    else:
        console = wide_console()
        print_facts(console, f"{status.get('name', 'query')}: {status['state']}", rows)
        print_events(console, events[-SHOWN_EVENTS:])


def stop_command(
    checkpoint: CheckpointFolder,
    drain: Annotated[bool, typer.Option("--drain", help="First emit what waits for its time to come.")] = False,
    wait: WaitSeconds = 60.0,
) -> None:
    """Stop a running query after its micro-batch, from any process that can write its checkpoint.

    Rows that wait stay in the checkpoint; started again, the query goes on. With --drain they take part first.

    Example: `midstream stop checkpoint/ --drain`
    """
    held, status = running(checkpoint, adopted=True)
    name = status["name"]
    if drain and status.get("adopted"):
        raise MidstreamError(
            f"{name} is a program of your own: it has no rows that wait for Midstream; stop it without --drain"
        )
    if drain and status.get("ends_by_itself"):
        raise MidstreamError(f"query '{name}' ends by itself and cannot be drained while it runs")
    held.controls.send(DRAIN if drain else STOP, run=status.get("run"))
    if wait == 0:
        print(f"{name} has been asked to {'drain and stop' if drain else 'stop'}")
        return
    last = wait_for(lambda: ended(held), wait)
    if last is None:
        fail(f"{name} has not stopped after {wait:g} s; it will after its next micro-batch")
    elif last["state"] == "stopped":
        print(f"{name} stopped{', drained' if drain else ''}: {ending(last)}")
    else:
        fail(f"{name} {last['state']} before it stopped{': ' + last['error'] if last.get('error') else ''}")


def snapshot_command(
    checkpoint: CheckpointFolder,
    wait: WaitSeconds = 60.0,
) -> None:
    """Ask a running query for the statistics of one micro-batch, wait for them and print them as JSON.

    Example: `midstream snapshot checkpoint/`
    """
    held, status = running(checkpoint, reads_control=True)
    identity = held.controls.send(SNAPSHOT)
    found = wait_for(lambda: _statistics(held, identity) or ended(held), wait)
    if found is None:
        fail(f"{status['name']} has reported nothing for {wait:g} s; its statistics will be among its events")
    elif "event" not in found:
        fail(f"{status['name']} {found['state']} before it reported its statistics")
    else:
        print(json.dumps(found, indent=1))


def migrate_command(
    checkpoint: CheckpointFolder,
    plan: Annotated[str, typer.Argument(help="The join order to go to, e.g. '((a b) (c d))'.")],
    strategy: Annotated[
        str | None, typer.Option("--strategy", help=f"{', '.join(STRATEGIES)}; chosen when not given.")
    ] = None,
    join: Annotated[
        str | None, typer.Option("--join", help="auto, hash or nested-loop; as it is when not given.")
    ] = None,
    background: Annotated[
        bool, typer.Option("--background", help="hybrid: compute states in spare time, so that it ends early.")
    ] = False,
    budget: Annotated[
        int | None, typer.Option("--budget", help="hybrid: evaluations per micro-batch in the background.")
    ] = None,
    capacity: Annotated[
        int | None,
        typer.Option("--capacity", help="hybrid: evaluations per second in all; the background has what is left."),
    ] = None,
    region: Annotated[
        str | None, typer.Option("--region", help="hybrid: pairs, or rows: what the old plan answers for.")
    ] = None,
    sharing: Annotated[
        bool, typer.Option("--sharing/--no-sharing", help="hybrid: compute once what both plans do.")
    ] = True,
    ordering: Annotated[str | None, typer.Option("--ordering", help="hybrid: parallel or serialized.")] = None,
    output: Annotated[str | None, typer.Option("--output", help="parallel-track: buffered or merged.")] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", help="general-hybrid: old rows per micro-batch in the background.")
    ] = None,
    wait: WaitSeconds = 600.0,
) -> None:
    """Change the join order of a running query; its output is the same as if nothing had happened.

    - **moving-state** computes the missing states at once; output pauses meanwhile.
    - **parallel-track** runs both plans until the old rows have expired, and holds the new plan's output back.
    - **hybrid** runs both plans, the old one only for what the new one cannot answer yet.
    - **just-in-time** goes on with the new plan at once and completes its states key by key.
    - **general-moving-state**, **general-parallel-track** and **general-hybrid** replace the whole pipeline, whatever
      stands above its joins, and know nothing of its states. They are for every query, hopping ones included.

    A migration asked for while another one runs waits for it; just-in-time ones overlap.

    A hopping query goes on with another shape, other modes or another hop, after the next hop it answers.

    Example: `midstream migrate checkpoint/ "((c d) (a b))" --strategy just-in-time`

    Example: `midstream migrate checkpoint/ "push-down modes=auto hop=30s"`
    """
    held, status = running(checkpoint, reads_control=True)
    name = status["name"]
    given = {
        "join": join,
        "budget": budget,
        "ordering": ordering,
        "output": output,
        "rows": rows,
        "capacity": capacity,
        "region": region,
    }
    options: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    options |= ({"background": True} if background else {}) | ({} if sharing else {"sharing": False})
    request = MigrationRequest.of(plan, strategy, options)
    if status.get("hopping"):
        shape = parse_spec(plan).shape
        if is_order(shape):
            parse_tree(shape, tuple(status.get("aliases", ())))
        check_hop_request(request)
    else:
        parse_tree(plan, tuple(status.get("aliases", ())))
    identity = held.controls.send(MIGRATE, migration=request.to_dict())
    if wait == 0:
        print(f"{name} has been asked to migrate to {plan}")
        return
    _report_migration(name, _wait_for_migration(held, identity, wait), wait)


def _report_migration(name: str, record: dict[str, Any] | None, seconds: float) -> None:
    """Say what became of a migration, or of the query, in so many seconds."""
    if record is None:
        fail(f"{name} has reported nothing of the migration for {seconds:g} s; its events will say what became of it")
    elif "event" not in record:
        fail(f"{name} {record['state']} before the migration was over; it goes on when the query does")
    elif record["state"] == "refused":
        raise MidstreamError(f"{name} goes on as it was: {record['reason']}")
    else:
        print_migrations(wide_console(), [record])
        if record["state"] in ("queued", "running"):
            fail(f"after {seconds:g} s the migration is {record['state']}; it goes on")


def _wait_for_migration(held: Checkpoint, identity: str, seconds: float) -> dict[str, Any] | None:
    """Wait until a migration is over, saying how it goes; return its last record, or the status of an ended query."""
    shown: list[str] = []

    def look(record: dict[str, Any] | None, events: list[dict[str, Any]]) -> None:
        if record is not None and shown[-1:] != [record["state"]]:
            shown.append(record["state"])
            say(f"the migration is {record['state']} ({record['strategy']})")

    return wait_for_record(held, "migration", identity, ("queued", "running"), seconds, look)


def demo_command(
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="How long rows are made.")] = 45.0,
    rate: Annotated[int, typer.Option("--rate", min=10, help="Rows per second of each stream.")] = 2000,
    keep: Annotated[Path | None, typer.Option("--keep", help="Keep streams, results and checkpoint here.")] = None,
) -> None:
    """Run a live 4-way join on local Spark for about a minute, then check it against recomputing from scratch.

    On the way its data drift, and the query changes its join order by itself: each decision is shown when it is made,
    and later whether it has paid. The output rates of all phases are shown side by side.

    Example: `midstream demo --seconds 30`
    """
    require_spark()
    from midstream.app.demo import Demo  # PySpark is an extra, and slow to import

    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise MidstreamError(f"--keep {keep} is not empty")
    with tempfile.TemporaryDirectory(prefix="midstream-demo-") as folder:
        demo = Demo(keep or Path(folder), seconds, rate)
        say(f"starting Spark (its log: {demo.log})")
        with demo.start() as run:
            with stopped_by_signals(demo.end_early):
                _watch_to_the_end(run, f"four streams, {rate:,} rows/s each, for {seconds:g} s", demo.tick)
            say(f"the query has stopped: {ending(run.status())}")
        print_migrations(wide_console(), demo.migrations())
        print_stretches(wide_console(), demo.stretches())
        for decision in demo.decisions():
            print("\n  ".join(decision_lines(decision)))
        say("recomputing from scratch: the same rows in process, and by plain joins")
        verdict = demo.check()
    print(verdict.sentence)
    if not verdict.equal:
        raise typer.Exit(1)


def _watch_to_the_end(run: Any, about: str, note: Callable[[], str] = lambda: "") -> None:
    """Show a run until it ends; when the query fails say why and exit with 1."""
    try:
        watch(run, about, note)
    except KeyboardInterrupt:
        raise
    except Exception:
        status = run.status()
        if status["state"] != "failed":
            raise
        fail(f"query '{run.name}' failed: {status['error']}")


def _statistics(held: Checkpoint, identity: str) -> dict[str, Any] | None:
    """Return the statistics that answer a snapshot."""
    asked = False
    for event in held.events.all():
        asked = asked or (event.get("event") == SNAPSHOT and event.get("id") == identity)
        if asked and event.get("event") == "statistics":
            return event
    return None
