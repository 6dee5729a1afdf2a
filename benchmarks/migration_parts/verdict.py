"""Verdict: what a figure must be, and whether it is."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console


@dataclass(frozen=True)
class Verdict:
    """A requirement and the figures it was judged by."""

    requirement: str
    holds: bool
    figures: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def print_verdicts(console: Console, verdicts: list[Verdict]) -> None:
    """Print a line for each requirement."""
    for verdict in verdicts:
        mark = "[green]PASS[/green]" if verdict.holds else "[red]FAIL[/red]"
        console.print(f"{mark} {verdict.requirement}: {verdict.figures}", highlight=False, soft_wrap=True)
