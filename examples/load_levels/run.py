"""Three versions of one query for three levels of load, and a controller that changes them as the input rate moves.

    readings of cars ──▶ speed per road or zone, minute by minute ──▶ dashboard
          └──▶ rows per second ──▶ controller ──▶ full, sampled or coarse

Windows do not overlap, and the controller acts where one ends. Nothing is lost there by any method, so the cheapest
will do: `immediate` never runs two versions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

import midstream as ms

MINUTE_US = 60_000_000
RATES = (60, 70, 130, 210, 360, 450, 430, 290, 230, 140, 110, 80, 60)
"""Rows per second, minute by minute."""
ROADS, ZONES, CARS = 40, 5, 2_000
LEVELS = ("full", "sampled", "coarse")
KEEPS = {"full": 1, "sampled": 5, "coarse": 20}
"""One car of how many is looked at."""
VERSIONS = {
    "full": """
        SELECT road AS place, COUNT(*) AS readings, MEDIAN(speed) AS speed
        FROM cars [RANGE 1 MINUTE SLIDE 1 MINUTE]
        GROUP BY road""",
    "sampled": """
        SELECT road AS place, COUNT(*) * 5 AS readings, MEDIAN(speed) AS speed
        FROM cars [RANGE 1 MINUTE SLIDE 1 MINUTE]
        WHERE car % 5 = 0
        GROUP BY road""",
    "coarse": """
        SELECT zone AS place, COUNT(*) * 20 AS readings, MEDIAN(speed) AS speed
        FROM cars [RANGE 1 MINUTE SLIDE 1 MINUTE]
        WHERE car % 20 = 0
        GROUP BY zone""",
}
UP_FROM = (120, 300)
"""The rates from which on the next level is taken."""
CALM = 0.8
"""It is left again below this part of that rate, so that a rate near it does not change the query every minute."""


@dataclass(frozen=True)
class Minute:
    """What one minute of event time brought."""

    rate: int
    """Rows per second that came in."""
    level: str
    """The version that ran."""
    results: list[dict[str, Any]]

    @property
    def rows_aggregated(self) -> int:
        """Return how many rows the windows held."""
        return sum(int(row["readings"]) for row in self.results) // KEEPS[self.level]


def tell(minutes: list[Minute], changes: list[dict[str, Any]], always: list[Minute]) -> None:
    """Print the minutes, and what they would have been with the full query all along."""
    table = Table(title="Minute by minute", box=box.SIMPLE, title_justify="left")
    for heading in ("minute", "rows/s", "version", "results", "rows aggregated", "full all along"):
        table.add_column(heading, justify="left" if heading == "version" else "right", no_wrap=True)
    for k, (minute, full) in enumerate(zip(minutes, always, strict=True)):
        rows = (f"{minute.rows_aggregated:,}", f"{full.rows_aggregated:,}")
        table.add_row(str(k), str(minute.rate), minute.level, str(len(minute.results)), *rows)
    console = Console(width=110)
    console.print(table)
    lost, both_us = (sum(c[key] for c in changes) for key in ("loss", "two_versions_us"))
    said = f"{len(changes)} changes: {lost} results lost, two versions for {both_us} us"
    console.print(f"{said}; speeds of roads within {error(minutes, always):.1%}", highlight=False)


def drive(adaptive: bool) -> tuple[list[Minute], list[dict[str, Any]]]:
    """Run minute by minute, choosing the version for the next one; return the minutes and the records of changes."""
    engine = ms.Engine().stream("cars", cars(), time="ts")
    for sql in VERSIONS.values():
        engine.query(sql)  # a mistake in any of them shows now, not under load
    run = engine.query(VERSIONS["full"]).start(batch="10 seconds", paused=True)
    level = "full"
    told = []
    for minute in range(len(RATES)):
        rows_before = run.status()["rows_in"]
        run.advance(until=(minute + 1) * MINUTE_US)
        rate = (run.status()["rows_in"] - rows_before) // 60
        told.append((rate, level))
        wanted = level_for(rate, level)
        if adaptive and wanted != level:
            run.change(VERSIONS[wanted], method="immediate")
            level = wanted
    run.finish()
    results = run.table().to_pylist()
    minutes = []
    for minute, (rate, ran) in enumerate(told):
        mine = [row for row in results if row["_time"] // MINUTE_US == minute]
        minutes.append(Minute(rate, ran, mine))
    return minutes, run.changes()


def level_for(rate: float, now: str) -> str:
    """Return the version for a rate, given the one that runs.

    >>> level_for(310, "full"), level_for(250, "coarse"), level_for(230, "coarse"), level_for(110, "sampled")
    ('coarse', 'coarse', 'sampled', 'sampled')
    """
    place = LEVELS.index(now)
    levels = [k + 1 for k, up in enumerate(UP_FROM) if rate >= (up * CALM if place > k else up)]
    return LEVELS[max(levels, default=0)]


def error(minutes: list[Minute], always: list[Minute]) -> float:
    """Return how far a road's speed was off at most, as a part of it, where roads were told apart."""
    worst = 0.0
    for minute, full in zip(minutes, always, strict=True):
        right = {row["place"]: row["speed"] for row in full.results}
        told = [row for row in minute.results if row["place"] in right]
        worst = max([worst, *(abs(row["speed"] / right[row["place"]] - 1) for row in told)])
    return worst


def cars() -> pa.Table:
    """Return the readings, and one more in the minute after, which closes the last window."""
    rng = np.random.default_rng(22)
    starts = [minute * MINUTE_US + np.sort(rng.integers(0, MINUTE_US, rate * 60)) for minute, rate in enumerate(RATES)]
    ts = np.concatenate([*starts, [len(RATES) * MINUTE_US]])
    road = rng.integers(0, ROADS, len(ts))
    speed = np.round(40 + road + rng.normal(0, 5, len(ts)), 1)
    car = rng.integers(0, CARS, len(ts))
    names = {"road": [f"road {n:02d}" for n in road], "zone": [f"zone {n % ZONES}" for n in road]}
    return pa.table({"ts": ts, "car": car, **names, "speed": speed})


if __name__ == "__main__":
    tell(*drive(adaptive=True), drive(adaptive=False)[0])
