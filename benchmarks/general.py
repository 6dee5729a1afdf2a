"""Three ways to replace a black box, a median over six nested-loop joins (HybMig's Fig. 22), at five rates.

warm-up with stream a rare, left-deep ──▶ f is rare for two windows ──▶ to a right-deep pipeline, each way

What the machine can do is given in rows a second; what the old and the new plan leave of it beside rows that come,
general-hybrid has for old ones. Figures are counted, not timed.
"""

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pyarrow as pa
from rich.table import Table

from benchmarks.measure import Progress, on_one_core
from benchmarks.migration_parts.clique import SECOND_US, Clique
from benchmarks.migration_parts.verdict import Verdict, print_verdicts
from midstream.app.show import wide_console
from midstream.engine.host import QueryHost
from midstream.migrate.request import (
    GENERAL,
    GENERAL_HYBRID,
    GENERAL_MOVING_STATE,
    GENERAL_PARALLEL_TRACK,
    MigrationRequest,
)

OLD, NEW = "(((((a b) c) d) e) f)", "(a (b (c (d (e f)))))"
RATES = (0.4, 0.7, 1.0, 1.3, 1.6)
CAPACITY = 30.0
"""Rows a second that the machine takes through a plan, of all streams."""
MEDIAN = 6
"""The window of the median is this part of the joins' windows."""
ALIKE = 2
"""Rows in a window that have the same value."""
NEAR = 0.25
"""How far a figure may be from what was predicted, in parts of it."""


@dataclass
class Trace:
    """A migration second by second."""

    evaluations: list[int] = field(default_factory=list)
    rows_out: list[int] = field(default_factory=list)
    output: list[pa.Table] = field(default_factory=list)
    peak_bytes: int = 0
    wall_s: float = 0.0
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[Any]:
        """Return what left, in order."""
        return [tuple(row.values()) for table in self.output for row in table.to_pylist()]

    def figures(self) -> dict[str, Any]:
        """Return what was counted of the migration, and what was predicted of it."""
        record = self.record
        return {
            "duration_s": None if record["duration_us"] is None else record["duration_us"] / SECOND_US,
            "batches": record["batches"],
            "rows": record["rows_old"] + record["rows_new"],
            "evaluations": record["predicate_evaluations"],
            "busiest_second": max(self.evaluations),
            "switch_ms": record["start_ms"],
            "output_delay_s": record["output_delay_us"] / SECOND_US,
            "predicted": record["predicted"],
            "per_second": {"evaluations": self.evaluations, "rows_out": self.rows_out},
        }


def migrate(clique: Clique, seed: int, strategy: str | None) -> Trace:
    """Warm a query up, migrate it and follow what happens; None: nothing is migrated."""
    batches = [rows for part in clique.batches(seed) for rows in part]
    start_s = clique.change_s + 2 * clique.window_s
    options = {"rows": spare_rows(clique)} if strategy == GENERAL_HYBRID else {}
    asked = (
        []
        if strategy is None
        else [MigrationRequest.of(NEW, strategy, options, at_us=start_s * SECOND_US, identity="1")]
    )
    host = QueryHost([clique.planned(OLD)], 1, schedule=asked)
    host.open()
    for second, rows in enumerate(batches[:start_s]):
        host.on_rows(rows, (second + 1) * SECOND_US)
    trace, started = Trace(), perf_counter()
    for second, rows in enumerate(batches[start_s:], start_s):
        left = host.on_rows(rows, (second + 1) * SECOND_US)
        trace.evaluations.append(left.summary.predicate_evaluations)
        trace.rows_out.append(sum(d.rows.num_rows for d in left.departures))
        trace.output += [pa.Table.from_batches([d.rows]) for d in left.departures]
        trace.peak_bytes = max(trace.peak_bytes, left.summary.state_bytes)
    trace.wall_s = perf_counter() - started
    trace.record = host.current_records()[0] if asked else {}
    return trace


def drawn(window_s: int, rate: float) -> Clique:
    """Return the streams of a rate: with more rows in the windows there are more values, so that as many match."""
    values = max(2, round(window_s * rate / ALIKE))
    return Clique(
        window_s=window_s, rate=rate, values=values, rare_values=20 * values, warm_up_windows=1, after_windows=3.5,
        median_s=window_s // MEDIAN,
    )  # fmt: skip


def spare_rows(clique: Clique) -> int:
    """Return how many old rows a second the machine has time for, beside those that come, which both plans take in."""
    return max(1, round(CAPACITY - 2 * clique.rate * clique.streams))


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of all strategies and print them; windows are of `seconds`, 180 by default."""
    on_one_core()
    window_s = 180 if seconds is None else max(12, round(seconds))
    traces: dict[float, dict[str, Trace]] = {}
    plain: dict[float, Trace] = {}
    total = len(RATES) * (len(GENERAL) + 1)
    for rate in RATES:
        clique = drawn(window_s, rate)
        plain[rate] = migrate(clique, seed, None)
        traces[rate] = {}
        for strategy in GENERAL:
            traces[rate][strategy] = migrate(clique, seed, strategy)
            progress(sum(map(len, traces.values())) + len(plain), total)
    verdicts = judge(window_s, traces, plain)
    own = traces[1.0][GENERAL_HYBRID]
    result = {
        "rows_per_s": 1.0 * clique.streams * len(own.evaluations) / own.wall_s,
        "peak_bytes": own.peak_bytes,
        "rates": {
            str(rate): {
                "spare_rows": spare_rows(Clique(rate=rate)),
                "ordinary_second": sum(plain[rate].evaluations) / len(plain[rate].evaluations),
                **{strategy: trace.figures() for strategy, trace in ways.items()},
            }
            for rate, ways in traces.items()
        },
        "verdicts": [v.to_dict() for v in verdicts],
        "parameters": {**clique.parameters(), "old_plan": OLD, "new_plan": NEW, "capacity": CAPACITY, "seed": seed},
    }
    print_tables(result, verdicts)
    return result


def judge(window_s: int, traces: dict[float, dict[str, Trace]], plain: dict[float, Trace]) -> list[Verdict]:
    """Tell which requirements hold."""
    reach_s = window_s + window_s // MEDIAN
    same = all(trace.rows == plain[rate].rows for rate, ways in traces.items() for trace in ways.values())
    counted = sum(len(trace.rows) for trace in plain.values())
    verdicts = [
        Verdict("all give the same results as without a migration, in the same order", same, f"{counted:,} medians")
    ]
    for strategy in GENERAL:
        waits = [busy_s(ways[strategy].record, strategy) for ways in traces.values()]
        suspends = strategy == GENERAL_MOVING_STATE
        word = "suspends" if suspends else "does not suspend"
        said = f"the machine has rows for {min(waits):.1f} to {max(waits):.1f} s at once"
        verdicts.append(Verdict(f"{strategy} {word} output", min(waits) > 1 if suspends else max(waits) <= 1.05, said))
    lasted = {rate: (ways[GENERAL_HYBRID].record["duration_us"] or 0) / SECOND_US for rate, ways in traces.items()}
    track = {
        rate: (ways[GENERAL_PARALLEL_TRACK].record["duration_us"] or 0) / SECOND_US for rate, ways in traces.items()
    }
    low, high = RATES[0], RATES[-1]
    said = ", ".join(f"{lasted[rate]:.0f} s at {rate}" for rate in RATES)
    verdicts += [
        Verdict(
            "general-parallel-track lasts as long as old rows matter",
            all(window_s <= t <= reach_s + 1 for t in track.values()),
            f"{min(track.values()):.0f} to {max(track.values()):.0f} s, of {reach_s} s at most",
        ),
        Verdict("general-hybrid ends well before that at low rates", 0 < lasted[low] <= reach_s / 4, said),
        Verdict(
            "and comes near it near capacity", reach_s * 0.7 <= lasted[high], f"{lasted[high]:.0f} s of {reach_s} s"
        ),
    ]
    for strategy in GENERAL:
        each = [ways[strategy].figures() for ways in traces.values()]
        worst, total = max(map(off, each)), off_in_all(each)
        most = max(off_in_all([figures]) for figures in each)
        said = f"rows and duration at worst {worst:.0%} off, evaluations {most:.0%}, over all rates {total:.0%}"
        verdicts.append(Verdict(f"{strategy} is as predicted within {NEAR:.0%}", max(worst, total) <= NEAR, said))
    return verdicts


def busy_s(record: dict[str, Any], strategy: str) -> float:
    """Return how long the machine is at work for the rows that both plans take in within a second, or at once."""
    if strategy == GENERAL_MOVING_STATE:
        return float(record["rows_old"] / CAPACITY)
    return float((record["rows_old"] + 2 * record["rows_new"]) / max(record["batches"], 1) / CAPACITY)


def off(figures: dict[str, Any]) -> float:
    """Return how far rows and duration are from what was predicted, at worst."""
    predicted = figures["predicted"]
    lasts_s = predicted["duration_us"] / SECOND_US if "duration_us" in predicted else None
    return max(_apart(figures["rows"], predicted.get("rows")), _apart(figures["duration_s"], lasts_s))


def off_in_all(each: list[dict[str, Any]]) -> float:
    """Return how far evaluations are from what was predicted, over all rates: at low ones they hang on few matches."""
    expected = [figures["predicted"].get("predicate_evaluations") for figures in each]
    return 1.0 if None in expected else _apart(sum(figures["evaluations"] for figures in each), sum(expected))


def _apart(counted: float | None, expected: float | None) -> float:
    return 1.0 if expected is None or counted is None else abs(counted - expected) / max(expected, 1.0)


def print_tables(result: dict[str, Any], verdicts: list[Verdict]) -> None:
    """Print what people compare."""
    console = wide_console()
    given = result["parameters"]
    title = f"Median over {given['old_plan']} to {given['new_plan']}, windows of {given['window_s']} s"
    table = Table(title=f"{title} and {given['median_s']} s; counted (predicted)")
    table.add_column("strategy", no_wrap=True)
    for heading in ("rows/s a stream", "rows", "evaluations", "lasts s", "busiest second", "ordinary", "switch ms"):
        table.add_column(heading, justify="right")
    for strategy in GENERAL:
        for rate, figures in result["rates"].items():
            own = figures[strategy]
            expected = own["predicted"]
            duration = "not over" if own["duration_s"] is None else f"{own['duration_s']:.0f}"
            table.add_row(
                strategy,
                rate,
                f"{own['rows']:,} ({expected.get('rows', float('nan')):,.0f})",
                f"{own['evaluations']:,} ({expected.get('predicate_evaluations', float('nan')):,.0f})",
                f"{duration} ({expected.get('duration_us', float('nan')) / SECOND_US:.0f})",
                f"{own['busiest_second']:,}",
                f"{figures['ordinary_second']:,.0f}",
                f"{own['switch_ms']:.0f}",
            )
    console.print(table)
    print_verdicts(console, verdicts)
