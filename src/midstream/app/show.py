"""What people look at: progress, tables, pictures of a run."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from midstream.app.changes import print_changes
from midstream.app.migrations import print_migrations
from midstream.app.tables import print_facts
from midstream.local.report import Report
from midstream.model.time import format_instant
from midstream.plan.plan import Plan

SHOWN_ROWS = 10
BARS = " ▁▂▃▄▅▆▇█"


def wide_console() -> Console:
    """Return a console as wide as the terminal, or wide enough for tables when there is none."""
    return Console() if sys.stdout.isatty() else Console(width=110)


@contextmanager
def progress_of(what: str, unit: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar of (done, total) on stderr while a person is watching."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def first_rows(path: Path | None) -> pa.Table:
    """Read the first rows of an output file back."""
    if path is None:
        return pa.table({})
    if path.suffix.lower() == ".csv":
        return pa.csv.read_csv(path)
    with pq.ParquetFile(path) as file:
        return pa.Table.from_batches(islice(file.iter_batches(SHOWN_ROWS), 1), file.schema_arrow)


def print_rows(console: Console, total: int, rows: pa.Table) -> None:
    """Print the first rows of a table."""
    title = f"The first {min(total, SHOWN_ROWS)} of {total:,} results"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    shown = [name for name in rows.column_names if name != "_version"]
    for name in shown:
        table.add_column(name, overflow="fold")
    first = rows.select(shown).slice(0, SHOWN_ROWS)
    cells = [[_cell(name, value) for value in _values(first.column(name))] for name in shown]
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    console.print(table)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return values as Python has them; dates and times that it has not, before the year 1 or after 9999, as text."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return list(column.cast(pa.string()).to_pylist())


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "NULL"
    return format_instant(value) if name == "_time" else str(value)


def print_report(console: Console, plan: Plan, report: Report, files: list[Path]) -> None:
    """Print what a run did: totals, output over time, files written."""
    per_s = f"{report.rows_in / report.wall_s:,.0f} rows/s" if report.wall_s > 0 else ""
    evaluations = sum(b.predicate_evaluations for b in report.batches)
    late = f"{report.late:,}" + (f" ({_by_stream(report.late_by_stream)})" if report.late else "")
    ahead = f"{report.ahead:,} ({_by_stream(report.ahead_by_stream)})"
    rows = [
        ("plan", " -> ".join(dict.fromkeys([str(plan), *(b.plan for b in report.batches)]))),
        ("rows in", f"{report.rows_in:,}"),
        ("rows out", f"{report.rows_out:,}"),
        ("late", late),
        *([("too far ahead", ahead)] if report.ahead else []),
        ("wall time", f"{report.wall_s:.2f} s   {per_s}"),
        ("micro-batches", f"{len(report.batches):,}"),
        ("predicate evaluations", f"{evaluations:,}"),
        ("largest state", f"{report.peak_state_bytes / 1e6:,.1f} MB"),
        ("buckets", f"{report.buckets} ({report.partitioning})"),
    ]
    if report.batches:
        first, last = report.batches[0].end, report.batches[-1].end
        rows.append(("event time", f"up to {format_instant(first)} ... {format_instant(last)}"))
        rows.append(("rows out over time", sparkline([b.rows_out for b in report.batches])))
    print_facts(console, "What happened", rows, highlight=True)
    print_migrations(console, report.migrations)
    print_changes(console, report.changes)
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)


def _by_stream(counts: dict[str, int]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count)


def sparkline(values: list[int], width: int = 60) -> str:
    """Draw numbers as a line of bars, summed into at most `width` of them.

    >>> sparkline([0, 1, 2, 4, 8])
    ' ▁▂▄█'
    """
    if len(values) > width:
        bounds = [len(values) * k // width for k in range(width + 1)]
        values = [sum(values[a:b]) // (b - a) for a, b in pairwise(bounds)]
    top = max(values, default=0)
    return "".join(BARS[-(-v * (len(BARS) - 1) // top)] if top else BARS[0] for v in values)


def print_comparison(console: Console, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Print the numbers of two runs side by side, and parameters that differ."""
    table = Table(title=f"{before.get('name')} and {after.get('name')}", title_justify="left")
    for name in ("figure", "before", "after", "after / before"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for key in before:
        a, b = before[key], after.get(key)
        if isinstance(a, bool | str) or not isinstance(a, int | float) or not isinstance(b, int | float):
            continue
        table.add_row(key, f"{a:,.4g}" if isinstance(a, float) else f"{a:,}",
                      f"{b:,.4g}" if isinstance(b, float) else f"{b:,}", f"{b / a:.2f}x" if a else "")  # fmt: skip
    console.print(table)
    ours, theirs = before.get("parameters", {}), after.get("parameters", {})
    for key in sorted(set(ours) | set(theirs)):
        if ours.get(key) != theirs.get(key):
            console.print(f"parameter {key} differs: {ours.get(key)} and {theirs.get(key)}", highlight=False)
