"""Migrations as people look at them: before, while they last, afterwards."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from midstream.local.explain import MigrationForecast
from midstream.model.time import format_instant
from midstream.plan.plan import Plan
from midstream.spark.rates import Stretch

NOWHERE_US = -(2**60)


def print_forecast(console: Console, running: Plan, target: Plan, forecast: MigrationForecast) -> None:
    """Print what a migration would find and cost."""
    console.print(f"From {running}\n  to {target}\n", highlight=False)
    states = Table(title="States of the new plan", title_justify="left", box=SIMPLE_HEAD)
    for name in ("state", "the running plan", "about"):
        states.add_column(name, justify="right" if name == "about" else "left")
    for state in forecast.states:
        kind = "has it: it is moved" if state.matched else "does not have it: incomplete"
        states.add_row(" ".join(state.parts), kind, f"{_about(state.entries)} entries")
    console.print(states, highlight=False)
    table = Table(title="Strategies", title_justify="left", box=SIMPLE_HEAD)
    for name in ("strategy", "evaluations at once", "in all", "output", "ends"):
        table.add_column(name, justify="right" if name in ("evaluations at once", "in all") else "left")
    for s in forecast.strategies:
        mark = "* " if s.strategy == forecast.chosen else "  "
        table.add_row(mark + s.strategy, _about(s.at_once), _about(s.in_all), s.output, s.ends)
    console.print(table, highlight=False)
    console.print(f"* {forecast.chosen} would be chosen. Nothing has been changed.", highlight=False)


def _about(number: float | None) -> str:
    """Write an estimate.

    >>> _about(12345.6), _about(None), _about(0.2)
    ('12,000', '?', '0')
    """
    if number is None:
        return "?"
    if number < 10:
        return f"{number:.0f}"
    digits = len(str(int(number)))
    return f"{round(number, 2 - digits):,.0f}"


def print_migrations(console: Console, records: list[dict[str, Any]]) -> None:
    """Print what became of migrations."""
    if not records:
        return
    table = Table(title="Migrations", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("")
    for r in records:
        table.add_column(f"to {r['plan']}", overflow="fold")
    for name, value in FACTS.items():
        table.add_row(name, *(value(r) for r in records))
    console.print(table, highlight=False)
    for r in records:
        if r.get("reason"):
            console.print(f"{r['plan']} was refused: {r['reason']}", highlight=False)


def print_stretches(console: Console, stretches: Sequence[Stretch]) -> None:
    """Print the output rate phase by phase."""
    table = Table(title="Output, phase by phase", title_justify="left", box=SIMPLE_HEAD)
    for name in ("phase", "plan", "micro-batches", "results per second of event time", "median micro-batch"):
        table.add_column(name, justify="left" if name in ("phase", "plan") else "right")
    for s in stretches:
        table.add_row(s.phase, s.plan, str(s.batches), f"{s.results_per_s:,.0f}", f"{s.batch_s:.2f} s")
    console.print(table, highlight=False)


def _when(time_us: int | None) -> str:
    if time_us is None:
        return ""
    return format_instant(time_us) if time_us > NOWHERE_US else "the beginning"


def _long(duration_us: int | None) -> str:
    return "" if duration_us is None or duration_us < 0 or duration_us > -NOWHERE_US else f"{duration_us / 1e6:g} s"


def _gap(record: dict[str, Any]) -> str:
    if "longest_gap_s" in record:
        return f"{record['longest_gap_s']:g} s (clock)"
    return f"{record['longest_gap_us'] / 1e6:g} s" if record["longest_gap_us"] else ""


FACTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "strategy": lambda r: str(r["strategy"]),
    "state": lambda r: str(r["state"]),
    "took effect at": lambda r: _when(r["position_us"]),
    "lasted (event time)": lambda r: _long(r["duration_us"]),
    "states matched, of them moved": lambda r: f"{r['states_matched']}, {r['states_moved']}",
    "states incomplete, completed": lambda r: f"{r['states_incomplete']}, {r['states_completed']}",
    "entries completed": lambda r: f"{r['entries_completed']:,}",
    "rows held back": lambda r: f"{r['rows_buffered']:,}",
    "predicate evaluations": lambda r: f"{r['predicate_evaluations']:,}",
    "switch took": lambda r: f"{r['start_ms']:.1f} ms",
    "longest gap without output": _gap,
    "largest output delay": lambda r: f"{r['output_delay_us'] / 1e6:g} s",
}
"""What is shown of a migration, in order."""
