"""Show what operators cost on this machine."""

from rich.console import Console
from rich.table import Table

from midstream.local.calibrate import Calibration


def print_costs(console: Console, found: Calibration) -> None:
    """Print the constants of the cost model, for all operators and for each, and how well they fit."""
    table = Table(title="Costs on this machine, in nanoseconds", title_justify="left")
    table.add_column("what")
    columns = found.by_operator
    for operator in columns:
        table.add_column(operator, justify="right")
    for name in columns["all"]:
        table.add_row(name, *(f"{each[name]:,.1f}" for each in columns.values()))
    console.print(table)
    console.print(
        f"from {found.cases} measured cases; median error {found.error:.0%}; "
        f"{found.ranked:.1%} of pairs of modes in the right order",
        highlight=False,
    )
