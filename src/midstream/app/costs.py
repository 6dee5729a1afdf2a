"""Show what operators cost on this machine."""

from rich.console import Console
from rich.table import Table

from midstream.optimize.hopping.cost import NUMBERS
from midstream.runtime.calibrate import Calibration


def print_costs(console: Console, found: Calibration) -> None:
    """Print the constants of the cost model, for all operators and for each, and how well they fit."""
    table = Table(title="Costs on this machine, in nanoseconds", title_justify="left")
    table.add_column("what")
    table.add_column("all", justify="right")
    for name in found.constants.own:
        table.add_column(name, justify="right")
    for name in NUMBERS:
        each = [getattr(found.constants, name), *(getattr(own, name) for own in found.constants.own.values())]
        table.add_row(name, *(f"{value:,.1f}" for value in each))
    console.print(table)
    console.print(
        f"from {found.cases} measured cases; median error {found.error:.0%}; "
        f"{found.ranked:.1%} of pairs of modes in the right order",
        highlight=False,
    )
