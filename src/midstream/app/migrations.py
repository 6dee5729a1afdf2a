"""Migrations as people look at them: before, while they last, afterwards."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from midstream.app.tables import print_records, print_table
from midstream.live.rates import Stretch
from midstream.local.explain import MigrationForecast
from midstream.model.time import format_instant
from midstream.plan.plan import Plan

NOWHERE_US = -(2**60)
RUNS = "the running plan"


def print_forecast(console: Console, running: Plan, target: Plan, forecast: MigrationForecast) -> None:
    """Print what a migration would find and cost."""
    console.print(f"From {running}\n  to {target}\n", highlight=False)
    kinds = {True: "has it: it is moved", False: "does not have it: incomplete"}
    states = [(" ".join(s.parts), kinds[s.matched], f"{_about(s.entries)} entries") for s in forecast.states]
    print_table(console, "States of the new plan", ("state", RUNS, "about"), states, left=("state", RUNS))
    rows = []
    for s in forecast.strategies:
        mark = "* " if s.strategy == forecast.chosen else "  "
        rows.append((mark + s.strategy, _about(s.at_once), _about(s.in_all), _about(s.entries), _about(s.held)))
    names = ("strategy", "evaluations at once", "in all", "entries computed", "held at most")
    print_table(console, "Strategies, until no old row matters", names, rows, left=("strategy",))
    for s in forecast.strategies:
        console.print(f"  {s.strategy}: output {_goes(s.output)}; ends {s.ends}", highlight=False, soft_wrap=True)
    console.print("Which strategy is for what, with figures: docs/choosing.md", highlight=False)
    console.print(f"* {forecast.chosen} would be chosen. Nothing has been changed.", highlight=False)


def _goes(output: str) -> str:
    return f"is {output}" if output.startswith("steady") else output


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
    print_records(console, "Migrations", records, lambda r: f"to {r['plan']}", FACTS, lambda r: str(r["plan"]))


def print_stretches(console: Console, stretches: Sequence[Stretch]) -> None:
    """Print the output rate phase by phase."""
    names = ("phase", "plan", "micro-batches", "results per second of event time", "median micro-batch")
    rows = [(s.phase, s.plan, str(s.batches), f"{s.results_per_s:,.0f}", f"{s.batch_s:.2f} s") for s in stretches]
    print_table(console, "Output, phase by phase", names, rows, left=("phase", "plan"))


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


def _rows(record: dict[str, Any]) -> str:
    """Say how many rows a black box has had, and how many were expected."""
    if not record.get("predicted"):
        return ""
    expected = record["predicted"].get("rows")
    said = "" if expected is None else f" ({expected:,.0f} expected)"
    return f"{record['rows_old']:,}, {record['rows_new']:,}{said}"


def _work(record: dict[str, Any]) -> str:
    """Say what both plans of a general strategy took, beside what was expected."""
    expected = record.get("predicted", {}).get("work_ms")
    if not record.get("work_ms"):
        return ""
    return f"{record['work_ms']:.1f} ms" + ("" if expected is None else f" ({expected:.1f} ms expected)")


FACTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "strategy": lambda r: str(r["strategy"]),
    "state": lambda r: str(r["state"]),
    "took effect at": lambda r: _when(r["position_us"]),
    "lasted (event time)": lambda r: _long(r["duration_us"]),
    "states matched, of them moved": lambda r: f"{r['states_matched']}, {r['states_moved']}",
    "states incomplete, completed": lambda r: f"{r['states_incomplete']}, {r['states_completed']}",
    "entries completed": lambda r: f"{r['entries_completed']:,}",
    "old rows, new rows through the new plan": _rows,
    "rows held back": lambda r: f"{r['rows_buffered']:,}",
    "predicate evaluations": lambda r: f"{r['predicate_evaluations']:,}",
    "switch took": lambda r: f"{r['start_ms']:.1f} ms",
    "work of both plans": _work,
    "longest gap without output": _gap,
    "largest output delay": lambda r: f"{r['output_delay_us'] / 1e6:g} s",
}
"""What is shown of a migration, in order."""
