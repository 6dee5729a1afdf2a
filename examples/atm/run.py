"""An ATM policy that changes at noon: 3 failed logins within 10 minutes block a card, from then on within 15.

failed logins ──▶ COUNT(*) per card and ATM ──▶ block the card ──▶ later logins with it are refused
"""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import midstream as ms

HERE = Path(__file__).parent
Place = tuple[str, str]
"""A card and an ATM."""
NOON = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
METHODS = ("drain", "immediate", "delayed-drain")
POLICY = """
SELECT card, atm, COUNT(*) AS tries, MAX(ts) AS last_try
FROM failed_logins [RANGE {minutes} MINUTES SLIDE 1 SECOND]
GROUP BY card, atm
HAVING COUNT(*) >= 3
"""


@dataclass(frozen=True)
class Block:
    """A card is blocked: when, after how many failed logins in all, and by which policy (version of the query)."""

    at: dt.datetime
    tries: int
    version: int


@dataclass(frozen=True)
class Day:
    """A day by one method: the first block of each card and ATM, and the record of the change."""

    blocks: dict[Place, Block]
    record: dict[str, Any]


def tell(days: dict[str, Day]) -> None:
    """Print what happens to each card that failed three times or more, by three methods."""
    tries = failed_logins()
    table = Table(title="Failed logins, and the one that blocks the card", box=box.SIMPLE, title_justify="left")
    for heading in ("card", "ATM", "before noon", "from noon on", *METHODS):
        table.add_column(heading, no_wrap=True)
    for card in sorted({card for card, _ in tries}):
        mine = {atm: times for (name, atm), times in tries.items() if name == card}
        times = sorted(t for at_one in mine.values() for t in at_one)
        if len(times) >= 3:
            before, after = (" ".join(f"{t:%H:%M}" for t in times if (t < NOON) is old) for old in (True, False))
            verdicts = [
                told(next((b for (name, _), b in days[m].blocks.items() if name == card), None)) for m in METHODS
            ]
            table.add_row(card, "\n".join(mine), before, after, *verdicts)
    console = Console(width=110)
    console.print(table)
    mallory = ("mallory", "harbour")
    for method in METHODS:
        block, record = days[method].blocks[mallory], days[method].record
        span = round((block.at - tries[mallory][0]).total_seconds() / 60)
        said = f"{method}: mallory has {block.tries} tries in {span} minutes; {record['loss']} alarms lost in all"
        console.print(f"{said}; the old policy is gone at {clock(record['ended_us'])}", highlight=False)


def change_at_noon(method: str) -> Day:
    """Run the day."""
    engine = ms.Engine().stream("failed_logins", HERE / "failed_logins.csv", time="ts")
    run = engine.query(POLICY.format(minutes=10)).start(paused=True)
    run.advance(until=NOON)
    run.change(POLICY.format(minutes=15), method=method)
    run.finish()
    tries = failed_logins()
    blocks: dict[Place, Block] = {}
    for row in run.table().to_pylist():
        place = (row["card"], row["atm"])
        at = row["last_try"].replace(tzinfo=dt.UTC)
        so_far = sum(t <= at for t in tries[place])
        blocks.setdefault(place, Block(at, so_far, row["_version"]))
    return Day(blocks, run.changes()[0])


def failed_logins() -> dict[Place, list[dt.datetime]]:
    """Return the times of failed logins by card and ATM."""
    out: dict[Place, list[dt.datetime]] = {}
    for line in (HERE / "failed_logins.csv").read_text(encoding="utf-8").splitlines()[1:]:
        ts, card, atm = line.split(",")
        out.setdefault((card, atm), []).append(dt.datetime.fromisoformat(ts).replace(tzinfo=dt.UTC))
    return dict(sorted(out.items()))


def told(block: Block | None) -> str:
    """Return a block as people read it."""
    return "" if block is None else f"no. {block.tries}, {block.at:%H:%M}"


def clock(time_us: int) -> str:
    """Return an event time as a time of day."""
    return f"{dt.datetime.fromtimestamp(time_us / 1e6, dt.UTC):%H:%M:%S}"


if __name__ == "__main__":
    tell({method: change_at_noon(method) for method in METHODS})
