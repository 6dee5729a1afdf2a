"""Tables for people: how they look everywhere."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

Record = dict[str, Any]


def print_table(
    console: Console, title: str, names: Iterable[str], rows: Iterable[Iterable[str]], left: Collection[str]
) -> None:
    """Print rows below the names of their columns; those that are not on the `left` are figures."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for name in names:
        table.add_column(name, justify="left" if name in left else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table, highlight=False)


def print_facts(console: Console, title: str, facts: Iterable[tuple[str, str]], highlight: bool = False) -> None:
    """Print what there is to know of one thing, a fact a line."""
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in facts:
        table.add_row(name, value)
    console.print(table, highlight=highlight)


def print_records(
    console: Console,
    title: str,
    records: list[Record],
    head: Callable[[Record], str],
    facts: Mapping[str, Callable[[Record], str]],
    refused: Callable[[Record], str],
) -> None:
    """Print records side by side, a fact a line, and why those were refused that were."""
    if not records:
        return
    table = Table("", title=title, title_justify="left", box=SIMPLE_HEAD)
    for record in records:
        table.add_column(head(record), overflow="fold")
    for name, value in facts.items():
        table.add_row(name, *(value(r) for r in records))
    console.print(table, highlight=False)
    for record in records:
        if record.get("reason"):
            word = "superseded" if record.get("state") == "superseded" else "refused"
            console.print(f"{refused(record)} was {word}: {record['reason']}", highlight=False)
