"""Show what operators cost on this machine."""

from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from midstream.runtime.calibrate import Calibration


def print_costs(console: Console, found: Calibration) -> None:
    """Print the constants of the cost model, and how well they fit."""
    table = Table(title="Costs on this machine", title_justify="left")
    table.add_column("what")
    table.add_column("nanoseconds", justify="right")
    for name, value in asdict(found.constants).items():
        table.add_row(name, f"{value:,.1f}")
    console.print(table)
    console.print(
        f"from {found.cases} measured cases; median error {found.error:.0%}; "
        f"{found.ranked:.1%} of pairs of modes in the right order",
        highlight=False,
    )
