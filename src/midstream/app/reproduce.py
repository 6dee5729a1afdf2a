"""`midstream reproduce`: do the papers' studies on this engine and judge what they claim."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from midstream.app.show import wide_console
from midstream.model.errors import MidstreamError
from midstream.studies.catalog import STUDIES, chosen
from midstream.studies.compute import Progress
from midstream.studies.frame.scale import read_scale
from midstream.studies.frame.study import Verdict
from midstream.studies.reproduce import Done, count_verdicts, reproduce

COLOR = {Verdict.HOLDS: "green", Verdict.OTHER: "yellow", Verdict.NOT: "red"}


def reproduce_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Studies, or how their names begin: 'hybmig' is all of that paper. Without any: all."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder to write to. It may exist.")] = None,
    scale: Annotated[
        str,
        typer.Option("--scale", help="quick (minutes), paper (its sizes), or a factor of those such as 0.5."),
    ] = "paper",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Processes that compute; one per core unless given.", min=1)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the studies and do nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Do the papers' studies again on this engine, and judge claim by claim whether they hold.

    The folder gets `report.html` (pictures, claims, what to learn; needs no network), `claims.json` (a list of
    paper, figure, claim, verdict, figures, why), a PNG per study, and the data as Parquet and JSON in `data`.

    Every part that has been computed is kept in `cases`: a run that is interrupted goes on there, another scale or
    further studies add to it, and parts are computed again only when the code that finds them has changed.
    Figures are counted, so they are the same on every machine and in every run.

    Examples:

    `midstream reproduce --list`

    `midstream reproduce --scale quick --out build/quick`

    `midstream reproduce hybmig jisc-complete-states --out build/studies`
    """
    if listed:
        _print_list()
        return
    if out is None:
        raise MidstreamError("say where to write: midstream reproduce --out FOLDER (or --list)")
    if out.exists() and not out.is_dir():
        raise MidstreamError(f"{out} is a file; --out wants a folder")
    studies, size = chosen(names or []), read_scale(scale)
    with _bar(quiet) as progress:
        done = reproduce(studies, out, size, jobs or os.cpu_count() or 1, progress)
    if not quiet:
        _print_claims(done, out)


@contextmanager
def _bar(quiet: bool) -> Iterator[Progress]:
    """Show how many cases are done; without a terminal, a line for each."""
    if quiet:
        yield lambda done, total, name: None
    elif not sys.stderr.isatty():
        yield lambda done, total, name: print(f"{done} of {total} {name}", file=sys.stderr, flush=True)
    else:
        columns = (
            TextColumn("cases"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=None)
            yield lambda done, total, name: bar.update(task, completed=done, total=total, description=name[:60])


def _print_list() -> None:
    table = Table(title="Studies", title_justify="left")
    for heading in ("name", "paper", "figure", "what it shows"):
        table.add_column(heading, no_wrap=heading == "name")
    for study in STUDIES:
        table.add_row(study.name, study.paper, study.figure, study.title)
    wide_console().print(table)


def _print_claims(done: list[Done], out: Path) -> None:
    console = wide_console()
    for one in done:
        console.print(f"\n[bold]{one.study.paper}, {one.study.figure}[/bold]: {one.study.title}", highlight=False)
        for judged in one.claims:
            color = COLOR[judged.finding.verdict]
            console.print(f"  [{color}]{judged.finding.verdict}[/{color}]: {judged.claim.text}", highlight=False)
            console.print(f"    {judged.finding.why}", style="dim", highlight=False)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in count_verdicts(done).items())
    console.print(f"\n{counted}. The report is {out / 'report.html'}", highlight=False, soft_wrap=True)
