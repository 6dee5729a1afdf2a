"""Changes as people look at them: what each method guarantees and would take, and what became of them."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from midstream.app.tables import Record, print_records, print_table
from midstream.change.forecast import ChangeForecast
from midstream.change.guarantees import Cell, Guarantees
from midstream.model.time import format_instant
from midstream.plan.plan import Plan

COLUMNS = {
    "loss": "no loss",
    "query_order": "query order",
    "stream_order": "stream order",
    "duplicates": "no duplicates",
    "progress": "progress",
    "termination": "ends",
}
"""The guarantees, as a table says them."""


def print_change_forecast(
    console: Console, old: Plan, new: Plan, forecast: ChangeForecast, labels: Sequence[str]
) -> None:
    """Print what some methods would guarantee and take."""
    for word, plan, span in (("From", old, forecast.old), ("  to", new, forecast.new)):
        console.print(
            f"{word} {_line(plan)}", f"     a result reaches over: {span}", sep="\n", highlight=False, markup=False
        )
    console.print()
    shown = {label: forecast.guarantees[label] for label in labels}
    reasons: list[str] = []
    names = ("method", *COLUMNS.values())
    rows = [[_mark(label, forecast) + label, *_cells(given, reasons)] for label, given in shown.items()]
    print_table(console, "Guarantees", names, rows, left=names)
    for number, reason in enumerate(reasons, 1):
        console.print(f"({number}) {reason}", highlight=False, markup=False)
    console.print()
    _print_timings(console, forecast, [label for label, g in shown.items() if not g.refused])
    for label, guarantees in shown.items():
        for note in guarantees.notes:
            console.print(f"{label}: {note}.", highlight=False, markup=False)
    if forecast.schema:
        console.print(
            f"The output changes, which needs allow_schema_change: {'; '.join(forecast.schema)}.", highlight=False
        )
    best = forecast.recommended
    console.print("Which method is for what, with figures: docs/choosing.md", highlight=False)
    console.print(f"* {best.label} is recommended: {best.why}.", "Nothing has been changed.", sep="\n", highlight=False)


def guarantee_lines(label: str, given: Guarantees) -> list[str]:
    """Say in two lines what a method guarantees for two queries, and what it does not."""
    out = []
    for holds, words in ((True, f"{label} guarantees here"), (False, "not guaranteed")):
        cells = {COLUMNS[name]: cell for name, cell in given.cells.items() if cell.holds == holds}
        parts = [f"{name} ({cell.why})" if cell.why else name for name, cell in cells.items()]
        if parts:
            out.append(f"{words}: {', '.join(parts)}")
    return out + [f"note: {note}" for note in given.notes]


def _cells(guarantees: Guarantees, reasons: list[str]) -> list[str]:
    if guarantees.refused:
        return [f"refused {_number(guarantees.refused, reasons)}", *[""] * (len(COLUMNS) - 1)]
    return [_cell(guarantees.cells[name], reasons) for name in COLUMNS]


def _cell(cell: Cell, reasons: list[str]) -> str:
    """Say a guarantee in a word, and why by number."""
    word = "yes" if cell.holds and cell.general else "here" if cell.holds else "no"
    return f"{word} {_number(cell.why, reasons)}" if cell.why else word


def _number(reason: str, reasons: list[str]) -> str:
    if reason not in reasons:
        reasons.append(reason)
    return f"({reasons.index(reason) + 1})"


def _print_timings(console: Console, forecast: ChangeForecast, labels: Sequence[str]) -> None:
    names = ("method", "old query gone", "new query answers", "both run", "output pauses", "results held back")
    rows = []
    for label in labels:
        t = forecast.timings[label]
        times = (_after(t.old_gone_s), _after(t.first_answer_s), _during(t.together_s), _during(t.pause_s))
        rows.append([_mark(label, forecast) + label, *times, "?" if t.held_back is None else f"{t.held_back:,.0f}"])
    print_table(console, "How long it would take, in event time (about)", names, rows, left=("method",))


def _mark(label: str, forecast: ChangeForecast) -> str:
    return "* " if label == forecast.recommended.label else "  "


def _line(plan: Plan) -> str:
    return " ".join(str(plan.query).split())


def _after(seconds: float | None) -> str:
    """Write how long after the position.

    >>> _after(4.9), _after(0.0), _after(None)
    ('after 4.9 s', 'at once', '?')
    """
    return "?" if seconds is None else f"after {seconds:.3g} s" if seconds else "at once"


def _during(seconds: float | None) -> str:
    """Write for how long.

    >>> _during(4.9), _during(0.0), _during(None)
    ('4.9 s', 'never', '?')
    """
    return "?" if seconds is None else f"{seconds:.3g} s" if seconds else "never"


def print_changes(console: Console, records: list[dict[str, Any]]) -> None:
    """Print what became of changes."""
    head: Callable[[Record], str] = lambda r: f"to version {r['to_version']}"  # noqa: E731
    print_records(console, "Changes", records, head, FACTS, lambda r: f"the change {head(r)}")


def _when(time_us: int | None) -> str:
    return "" if time_us is None else format_instant(time_us)


def _long(duration_us: int | None) -> str:
    return "" if duration_us is None else f"{duration_us / 1e6:g} s"


FACTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "method": lambda r: f"{r['method']}/{r['order']}" if r["order"] else str(r["method"]),
    "state": lambda r: str(r["state"]),
    "took effect at": lambda r: _when(r["position_us"]),
    "new version started at": lambda r: _when(r["started_us"]),
    "ended at": lambda r: _when(r["ended_us"]),
    "lost": lambda r: "not counted" if r["loss"] is None else f"{r['loss']:,}",
    "more than the reference": lambda r: f"{r['extra']:,}",
    "out of query order": lambda r: f"{r['query_disorder']:,}",
    "out of stream order": lambda r: f"{r['stream_disorder']:,}",
    "duplicates": lambda r: f"{r['duplicates']:,}",
    "results held back": lambda r: f"{r['rows_held']:,}",
    "response (event time)": lambda r: _long(r["response_us"]),
    "both versions ran (event time)": lambda r: _long(r["two_versions_us"]),
}
"""What is shown of a change, in order."""
