"""Sensors in a forest: when a region turns hot, a coarse query gives way to one that finds the fire, fast.

readings ──▶ averages of regions ──▶ one is too hot ──▶ change ──▶ what each of its sensors says, three times in a row
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

import midstream as ms

SECOND_US = 1_000_000
METHODS = {
    "immediate": {"method": "immediate"},
    "graceful-immediate": {"method": "graceful-immediate"},
    "graceful-drain": {"method": "graceful-drain"},
    "drain/stream": {"method": "drain", "order": "stream"},
    "drain/query": {"method": "drain", "order": "query"},
    "delayed-drain": {"method": "delayed-drain"},
}
REGIONS, SENSORS, PERIOD_S, SPAN_S = 12, 20, 10, 780
FIRE_REGION, FIRE_SENSOR, FIRE_S = 7, 13, 300
ALARM = 23.0
"""Degrees, on average over a region."""
BURNING = 75.0
"""Degrees, of a sensor."""
COARSE = """
SELECT region AS place, AVG(temperature) AS temperature
FROM readings [RANGE 5 MINUTES SLIDE 10 SECONDS]
GROUP BY region
"""
SPECIFIC = """
SELECT sensor AS place, MIN(temperature) AS temperature
FROM readings [ROWS 3 SLIDE 1 PARTITION BY sensor]
WHERE region = '{region}'
GROUP BY sensor
"""
"""Three readings in a row, so that no single one can mislead."""


@dataclass(frozen=True)
class Found:
    """What one method led to; times in seconds after the alarm."""

    region: str
    sensor: str
    located_s: int
    first_answer_s: int
    silence_s: int
    """The longest time without any result, while the change lasted and until the fire was located."""
    record: dict[str, Any]


def tell(found: dict[str, Found]) -> None:
    """Print the methods in one table."""
    one = found["immediate"]
    console = Console(width=110)
    console.print(f"Alarm: region {one.region} has more than {ALARM:g} degrees on average.", highlight=False)
    table = Table(title="After the alarm", box=box.SIMPLE, title_justify="left")
    headings = ("fire located", "first answer", "silence", "both run", "old results", "lost")
    table.add_column("method", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, f in found.items():
        times = [f"{s} s" for s in (f.located_s, f.first_answer_s, f.silence_s)]
        both = f"{f.record['two_versions_us'] // SECOND_US} s"
        table.add_row(name, *times, both, str(f.record["old_results"]), str(f.record["loss"]))
    console.print(table)
    console.print(f"The fire is at sensor {one.sensor}.", highlight=False)


def locate(options: dict[str, str]) -> Found:
    """Watch the regions, change the query at the first alarm, and see when the burning sensor shows."""
    news: list[dict[str, Any]] = []
    engine = ms.Engine().stream("readings", readings(), time="ts")
    run = engine.query(COARSE).start(lambda batch: news.extend(batch.to_pylist()), batch="10 seconds", paused=True)
    now_us = FIRE_S * SECOND_US
    while not (hot := [row["place"] for row in news if row["temperature"] > ALARM]):
        assert now_us < SPAN_S * SECOND_US, "there is a fire"
        news.clear()
        now_us += SECOND_US
        run.advance(until=now_us)
    alarm_us = last_us = now_us
    run.change(SPECIFIC.format(region=hot[0]), **options)
    news.clear()
    silence_us, first_us, located_us, sensor = 0, 0, 0, ""
    while not located_us:
        assert now_us < SPAN_S * SECOND_US, "there is a fire"
        # One second after the other: what is there by now has left by now.
        now_us += SECOND_US
        run.advance(until=now_us)
        if news:
            silence_us, last_us = max(silence_us, now_us - last_us), now_us
        answers = [row for row in news if row["_version"] == 2]
        first_us = first_us or (now_us if answers else 0)
        burning = [row["place"] for row in answers if row["temperature"] > BURNING]
        if burning:
            sensor, located_us = burning[0], now_us
        news.clear()
    run.finish()
    located_s, first_s = ((t - alarm_us) // SECOND_US for t in (located_us, first_us))
    return Found(hot[0], sensor, located_s, first_s, silence_us // SECOND_US, run.changes()[0])


def readings() -> pa.Table:
    """Return 13 minutes of a reading per sensor every 10 seconds; in one region, near one sensor, a fire spreads."""
    rng = np.random.default_rng(20110612)
    region, sensor = (x.ravel() for x in np.meshgrid(np.arange(REGIONS), np.arange(SENSORS), indexing="ij"))
    tables = []
    for start in range(0, SPAN_S, PERIOD_S):
        at_us = start * SECOND_US + np.sort(rng.integers(0, PERIOD_S * SECOND_US, len(region)))
        order = rng.permutation(len(region))
        where, which = region[order], sensor[order]
        burning = np.clip((start - FIRE_S) / 120, 0, 1)
        distance = np.abs(which - FIRE_SENSOR)
        heat = np.where(where == FIRE_REGION, burning * 80 * np.exp(-distance / 1.5), 0.0)
        temperature = 21 + rng.normal(0, 1.0, len(order)) + heat
        tables.append(
            pa.table(
                {
                    "ts": at_us,
                    "region": [f"r{n:02d}" for n in where],
                    "sensor": [f"r{n:02d}-{k:02d}" for n, k in zip(where, which, strict=True)],
                    "temperature": temperature,
                }
            )
        )
    return pa.concat_tables(tables)


if __name__ == "__main__":
    tell({name: locate(options) for name, options in METHODS.items()})
