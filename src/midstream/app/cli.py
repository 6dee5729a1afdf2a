"""The command line: `midstream replay | explain | bench | compare | run | status | migrate | change | ... | demo`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from midstream.app import bench as benches
from midstream.app import change_commands, deploy_commands, spark_commands
from midstream.app.advise import advise_command
from midstream.app.changes import print_change_forecast
from midstream.app.costs import print_costs
from midstream.app.health import health_command
from midstream.app.metrics import metrics_command
from midstream.app.migrations import print_forecast
from midstream.app.replay import replay
from midstream.app.reproduce import reproduce_command
from midstream.app.show import first_rows, print_comparison, print_report, print_rows, progress_of, wide_console
from midstream.change.recommend import read_matters
from midstream.engine.planning.constants import save_constants
from midstream.local.calibrate import calibrate
from midstream.local.changes import explain_change, labels_of, plan_change
from midstream.local.explain import explain_migration, explain_plan
from midstream.local.explain_sites import check_over_sites, explain_sites
from midstream.local.replay import Rehearsal, check_places, make_plan, prepare
from midstream.local.scenario import Scenario, read_scenario
from midstream.local.sites_picture import sites_picture, write_picture
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.plan.plan import Plan

app = typer.Typer(
    name="midstream",
    help="Continuous queries whose plan and meaning can be changed while they run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

ScenarioFile = Annotated[Path, typer.Argument(help="A scenario: TOML with a query, [streams.*] and [run].")]


@app.command("replay")
def replay_command(
    scenario: ScenarioFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the results here (.parquet, or .csv).")] = None,
    report: Annotated[Path | None, typer.Option("--report", "-r", help="Write the report here (JSON).")] = None,
    late: Annotated[Path | None, typer.Option("--late", help="Write rows that came too late here (Parquet).")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Run a query over recorded streams and say what happened.

    The first results are printed. Output, report and late rows appear together when the run has
    succeeded; after an error nothing is written.

    Example: `midstream replay scenario.toml --out out.parquet --report report.json`
    """
    rehearsal = prepare(read_scenario(scenario))
    with progress_of("replay", "rows", quiet) as progress:
        summary, rows = replay(rehearsal, out, report, late, lambda done: progress(done, rehearsal.rows))
    if quiet:
        return
    console = wide_console()
    print_rows(console, summary.rows_out, rows if rows is not None else first_rows(out))
    print_report(console, rehearsal.plan, summary, [p for p in (out, report, late) if p is not None])


@app.command("explain")
def explain_command(
    scenario: ScenarioFile,
    plan: Annotated[
        str | None, typer.Option("--plan", help="Explain this join order instead, e.g. '((a b) (c d))'.")
    ] = None,
    join: Annotated[
        str | None, typer.Option("--join", help="auto, hash or nested-loop, instead of the scenario's.")
    ] = None,
    migrate: Annotated[
        str | None, typer.Option("--migrate", help="Say what migrating to this join order would find and cost.")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option("--strategy", help="With --migrate: the strategy, instead of the one chosen.")
    ] = None,
    change: Annotated[
        str | None, typer.Option("--change", help="Say what changing to this query would guarantee: NEW.sql, or SQL.")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", help="With --change: only this method.")] = None,
    in_order: Annotated[str | None, typer.Option("--order", help="With --change: a drain in this order.")] = None,
    matters: Annotated[
        str | None,
        typer.Option(
            "--matters",
            help="With --change: what matters, of loss, response, query-order, stream-order, duplicates, resources.",
        ),
    ] = None,
    sites: Annotated[
        bool, typer.Option("--sites", help="Say where each join takes place, and what each node does for it.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="With --sites: draw the sites and the flows between them here (SVG).")
    ] = None,
) -> None:
    """Print the plan of a scenario's query: output, join tree, windows, partitioning. Runs nothing.

    With --migrate it says, before anything happens, which states of the new plan the running one has, which would be
    incomplete, what each strategy is expected to cost and which one would be chosen.

    With --change it says what each method would guarantee for the two queries, how long it would take, and which one
    is recommended for what matters.

    Example: `midstream explain scenario.toml --plan "((a b) (c d))"`

    Example: `midstream explain scenario.toml --migrate "(a (b (c d)))"`

    With --sites it says, of streams that have a site, what each of their new rows probes, in which order and where,
    what that costs, and the operators of each node.

    Example: `midstream explain scenario.toml --change new.sql --matters loss,query-order`

    Example: `midstream explain scenario.toml --sites --svg sites.svg`
    """
    read = read_scenario(scenario)
    _check_options(join, migrate, strategy, change, {"--method": method, "--order": in_order, "--matters": matters})
    if sites or svg is not None:
        _explain_sites(read, sites, svg, (plan, migrate, change))
        return
    rehearsal = prepare(read)
    order = plan if plan is not None else read.plan
    chosen = make_plan(rehearsal.plan.query, order, join or read.join, rehearsal.streams)
    if migrate is not None:
        _explain_migration(rehearsal, chosen, MigrationRequest.of(migrate, strategy))
    elif change is not None:
        asked = labels_of(method, in_order)
        after = plan_change(change, rehearsal)
        expected = explain_change(chosen, after, rehearsal.streams, read_matters(matters or ""))
        print_change_forecast(wide_console(), chosen, after, expected, asked)
    else:
        print(explain_plan(chosen, rehearsal.streams, buckets=read.buckets))


def _check_options(
    join: str | None, migrate: str | None, strategy: str | None, change: str | None, of_changes: dict[str, str | None]
) -> None:
    """Refuse options of `explain` that do not go together."""
    if join not in (None, "auto", "hash", "nested-loop"):
        raise MidstreamError(f"--join is '{join}'; it can be auto, hash, nested-loop")
    if migrate is not None and change is not None:
        raise MidstreamError("--migrate and --change are two things; explain one of them at a time")
    for option, value in of_changes.items():
        if value is not None and change is None:
            raise MidstreamError(f"{option} goes with --change")
    if strategy is not None and migrate is None:
        raise MidstreamError("--strategy goes with --migrate")


def _explain_sites(read: Scenario, sites: bool, svg: Path | None, others: Sequence[str | None]) -> None:
    if not sites:
        raise MidstreamError("--svg goes with --sites")
    if any(other is not None for other in others):
        raise MidstreamError("--sites explains the plan over sites, and not --plan, --migrate or --change")
    rehearsal = prepare(read)
    check_over_sites(rehearsal.plan)
    explained = explain_sites(rehearsal.plan, read.sites.of(rehearsal.plan.query), rehearsal.streams)
    if svg is not None:
        check_places([svg], rehearsal)
        write_picture(svg, sites_picture(explained))
    print(explained)


def _explain_migration(rehearsal: Rehearsal, chosen: Plan, asked: MigrationRequest) -> None:
    text, target, forecast = explain_migration(chosen, asked, rehearsal.streams, batch_us=rehearsal.scenario.batch_us)
    if forecast is None:
        print(text)
    else:
        print_forecast(wide_console(), chosen, target, forecast)


@app.command("bench")
def bench_command(
    name: Annotated[str, typer.Argument(help="A benchmark; `midstream bench list` names them all.")],
    files: Annotated[list[Path] | None, typer.Argument(help="For `bench compare`: two runs.", hidden=True)] = None,
    out: Annotated[Path | None, typer.Option("--json", help="Write figures and parameters here.")] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", help="Event time to measure after warm-up (default: the benchmark's).")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the generated rows.")] = 1,
) -> None:
    """Measure this machine on generated rows: rows per second and peak memory, after warm-up.

    Example: `midstream bench join4 --json join4.json`
    """
    if name == "compare":
        compare_command(*_two(files or []))
        return
    if name == "list":
        for known, about in benches.available().items():
            print(f"{known:12} {about}")
        return
    with progress_of("bench", "steps", quiet=False) as progress:
        result = benches.run(name, seconds, seed, out, progress)
    print(json.dumps(result, indent=1) if out is None else benches.summary(result))


@app.command("calibrate")
def calibrate_command(
    file: Annotated[
        Path | None, typer.Option("--file", help="Keep the costs here instead of in the user's configuration.")
    ] = None,
) -> None:
    """Measure what operators of hopping queries cost on this machine, and keep it for choosing their modes.

    Takes about three minutes; nothing else should run meanwhile. `midstream explain` prints costs from these figures;
    without them it uses known ones.

    Example: `midstream calibrate`
    """
    with progress_of("calibrate", "cases", quiet=False) as progress:
        found = calibrate(progress)
    about: dict[str, object] = {"cases": found.cases, "median_error": found.error, "ranked_right": found.ranked}
    place = save_constants(found.constants, about, file)
    print_costs(wide_console(), found)
    print(f"wrote {place}")


@app.command("compare")
def compare_command(
    before: Annotated[Path, typer.Argument(help="JSON of the first run.")],
    after: Annotated[Path, typer.Argument(help="JSON of the second run.")],
) -> None:
    """Compare two benchmark runs: each figure, and the second as a multiple of the first.

    Example: `midstream compare before.json after.json`
    """
    print_comparison(wide_console(), benches.read(before), benches.read(after))


def _two(files: list[Path]) -> tuple[Path, Path]:
    if len(files) != 2:
        raise MidstreamError("compare needs two JSON files: midstream bench compare BEFORE AFTER")
    return files[0], files[1]


app.command("run")(spark_commands.run_command)
app.command("status")(spark_commands.status_command)
app.command("health")(health_command)
app.command("metrics")(metrics_command)
app.command("stop")(spark_commands.stop_command)
app.command("snapshot")(spark_commands.snapshot_command)
app.command("migrate")(spark_commands.migrate_command)
app.command("advise")(advise_command)
app.command("change")(change_commands.change_command)
app.command("control")(change_commands.control_command)
app.command("register")(change_commands.register_command)
app.command("registered")(change_commands.registered_command)
app.command("unregister")(change_commands.unregister_command)
app.command("deploy", cls=deploy_commands.DeployCommand)(deploy_commands.deploy_command)
app.command("rollback")(deploy_commands.rollback_command)
app.command("versions")(deploy_commands.versions_command)
app.command("reproduce")(reproduce_command)
app.command("demo")(spark_commands.demo_command)


def main() -> None:
    """Run the command line; a user's error is one sentence and exit code 2."""
    try:
        app()
    except MidstreamError as error:
        print(f"midstream: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("midstream: interrupted, nothing was written", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:  # a checkpoint of somebody else, a disk that is full or read-only
        place = f"{error.filename}: " if error.filename is not None else ""
        print(f"midstream: {MidstreamError(f'{place}{error.strerror or error}')}", file=sys.stderr)
        sys.exit(2)
