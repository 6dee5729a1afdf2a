"""Four ways to migrate six nested-loop joins when the rare stream changes (HybMig's set-up), second by second.

warm-up with stream a rare, left-deep ──▶ f is rare from now on ──▶ migrate to another plan, each way on the same rows

Figures are counted, not timed: results, predicate evaluations and tuples in states at the end of each second.
"""

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from rich.table import Table

from benchmarks.direct import DirectRun
from benchmarks.measure import Progress, on_one_core
from benchmarks.migration_parts.clique import SECOND_US, Clique
from benchmarks.migration_parts.frozen import FrozenRun, freeze_after
from benchmarks.migration_parts.verdict import Verdict, print_verdicts
from midstream.app.show import wide_console
from midstream.migrate.request import HYBRID, JUST_IN_TIME, MOVING_STATE, PARALLEL_TRACK, MigrationRequest
from midstream.model.batch import Results

OLD = "(((((a b) c) d) e) f)"
RIGHT_DEEP = "(a (b (c (d (e f)))))"
BUSHY = "(a (b ((c d) (e f))))"
SHARED = "((((a b) c) d) (e f))"
BACKGROUND, ALONE = "hybrid, background", "hybrid, no sharing"
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    MOVING_STATE: (MOVING_STATE, {}),
    PARALLEL_TRACK: (PARALLEL_TRACK, {}),
    HYBRID: (HYBRID, {}),
    BACKGROUND: (HYBRID, {"background": True}),
    JUST_IN_TIME: (JUST_IN_TIME, {}),
    ALONE: (HYBRID, {"sharing": False}),
}
COMPARED = (MOVING_STATE, PARALLEL_TRACK, HYBRID, BACKGROUND, JUST_IN_TIME)
LOW_RATES = (0.4, 0.7)
"""Rows per second at which background computation must end a migration early: within half a window."""
ALLOWED_DELAY_S = 1.0


@dataclass
class Trace:
    """A migration second by second."""

    rows_out: list[int] = field(default_factory=list)
    evaluations: list[int] = field(default_factory=list)
    tuples: list[int] = field(default_factory=list)
    peak_bytes: int = 0
    delay_us: int = 0
    """The most a result left after its latest row, the second a micro-batch takes included."""
    checksum: int = 0
    """The same for the same results in any order."""
    wall_s: float = 0.0
    record: dict[str, Any] = field(default_factory=dict)

    def see(self, results: Results, end_us: int) -> int:
        """Note results that leave in the micro-batch that ends then; return how many there are."""
        if len(results):
            times, keys = (results.rows.column(name).to_numpy() for name in ("_time", "k"))
            self.delay_us = max(self.delay_us, end_us - int(times.min()))
            self.checksum += int(((times % 1_000_003) * (keys + 1)).sum())
        return len(results)

    def figures(self, window_s: int) -> dict[str, Any]:
        """Return totals; evaluations are those of one window, which is how long parallel-track takes."""
        return {
            "rows_out": sum(self.rows_out),
            "evaluations": sum(self.evaluations[:window_s]),
            "peak_tuples": max(self.tuples),
            "duration_s": None if self.record["duration_us"] is None else self.record["duration_us"] / SECOND_US,
            "longest_gap_s": self.record["longest_gap_us"] / SECOND_US,
            "held_back_s": self.record["output_delay_us"] / SECOND_US,
            "delay_s": self.delay_us / SECOND_US,
            "switch_ms": self.record["start_ms"],
            "wall_s": self.wall_s,
            "peak_bytes": self.peak_bytes,
            "per_second": {"rows_out": self.rows_out, "evaluations": self.evaluations, "tuples": self.tuples},
        }


class Experiment:
    """One set of streams, warmed up, to be migrated again and again."""

    def __init__(self, clique: Clique, seed: int) -> None:
        self.clique = clique
        before, self.after = clique.batches(seed)
        self.frozen: FrozenRun = freeze_after(DirectRun(clique.planned(OLD)), before)

    def migrate(self, plan: str, way: str) -> Trace:
        """Migrate one way and follow what happens."""
        strategy, options = WAYS[way]
        request = MigrationRequest.of(plan, strategy, options, at_us=self.clique.change_us)
        runtime, trace = self.frozen.thaw([request]), Trace()
        tested = runtime.predicate_evaluations
        started = perf_counter()
        for second, rows in enumerate(self.after, self.clique.change_s):
            end_us = (second + 1) * SECOND_US
            trace.rows_out.append(sum(trace.see(results, end_us) for results in runtime.on_rows(rows)))
            size = runtime.size()
            trace.evaluations.append(runtime.predicate_evaluations - tested)
            trace.tuples.append(size.tuples)
            trace.peak_bytes = max(trace.peak_bytes, size.nbytes)
            tested = runtime.predicate_evaluations
        trace.rows_out[-1] += sum(trace.see(results, end_us) for results in runtime.finish())
        trace.wall_s = perf_counter() - started
        trace.record = runtime.records()[0].to_dict()
        return trace


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of all ways and print them; `seconds` follow the change, 1.2 windows of 180 s by default."""
    on_one_core()
    clique = Clique(window_s=180 if seconds is None else max(10, round(seconds / 1.2)))
    jobs = [(RIGHT_DEEP, way) for way in COMPARED]
    jobs += [(BUSHY, way) for way in (MOVING_STATE, PARALLEL_TRACK, HYBRID)]
    jobs += [(SHARED, way) for way in (HYBRID, ALONE)]
    slow = [(rate, way) for rate in LOW_RATES for way in (HYBRID, BACKGROUND)]
    total = len(jobs) + len(slow)
    experiment = Experiment(clique, seed)
    traces: dict[str, dict[str, Trace]] = {RIGHT_DEEP: {}, BUSHY: {}, SHARED: {}}
    for place, (plan, way) in enumerate(jobs):
        traces[plan][way] = experiment.migrate(plan, way)
        progress(place + 1, total)
    low: dict[float, dict[str, Trace]] = {rate: {} for rate in LOW_RATES}
    for rate in LOW_RATES:
        slower = Experiment(Clique(window_s=clique.window_s, rate=rate), seed)
        low[rate] = {way: slower.migrate(RIGHT_DEEP, way) for way in (HYBRID, BACKGROUND)}
        progress(len(jobs) + 2 * len(low), total)
    verdicts = judge(clique, traces, low)
    own = traces[RIGHT_DEEP][HYBRID]
    rows_in = sum(len(r.times) for rows in experiment.after for r in rows.values())
    result = {
        "rows_per_s": rows_in / own.wall_s,
        "peak_bytes": own.peak_bytes,
        "plans": {
            plan: {way: trace.figures(clique.window_s) for way, trace in ways.items()} for plan, ways in traces.items()
        },
        "low_rates": {
            str(rate): {way: trace.figures(clique.window_s) for way, trace in ways.items()}
            for rate, ways in low.items()
        },
        "verdicts": [v.to_dict() for v in verdicts],
        "parameters": {**clique.parameters(), "old_plan": OLD, "seed": seed},
    }
    print_tables(result, verdicts)
    return result


def judge(clique: Clique, traces: dict[str, dict[str, Trace]], low: dict[float, dict[str, Trace]]) -> list[Verdict]:
    """Tell which requirements hold."""
    window = clique.window_s
    told = {way: trace.figures(window) for way, trace in traces[RIGHT_DEEP].items()}
    own, others = told[HYBRID], [told[MOVING_STATE], told[PARALLEL_TRACK]]
    delay = traces[RIGHT_DEEP][HYBRID].delay_us / SECOND_US
    verdicts = [
        Verdict("hybrid delays no result more than 1 s of event time", delay <= ALLOWED_DELAY_S, f"{delay:.3f} s"),
        every_second(traces[RIGHT_DEEP][HYBRID], traces[RIGHT_DEEP][PARALLEL_TRACK], window),
    ]
    for name, figure in (("peak tuples", "peak_tuples"), ("evaluations in all", "evaluations")):
        said = f"{own[figure]:,} to moving-state's {others[0][figure]:,} and parallel-track's {others[1][figure]:,}"
        verdicts.append(Verdict(f"hybrid has fewer {name}", own[figure] < min(o[figure] for o in others), said))
    for rate, ways in low.items():
        lasted = ways[BACKGROUND].record["duration_us"]
        early = lasted is not None and lasted <= window * SECOND_US / 2
        said = "not over" if lasted is None else f"{lasted / SECOND_US:.1f} s of {window} s"
        verdicts.append(Verdict(f"background computation ends the migration early at {rate} rows/s", early, said))
    groups = [*traces.values(), *low.values()]
    same = all(len({(sum(t.rows_out), t.checksum) for t in ways.values()}) == 1 for ways in groups)
    verdicts.append(Verdict("all ways give the same results", same, f"{own['rows_out']:,} to the right-deep plan"))
    return verdicts


def every_second(own: Trace, other: Trace, window_s: int) -> Verdict:
    """Compare the evaluations of each second of a window."""
    pairs = list(zip(own.evaluations[:window_s], other.evaluations[:window_s], strict=True))
    worse = [second for second, (mine, theirs) in enumerate(pairs) if mine >= theirs]
    said = f"in {len(pairs) - len(worse)} of {len(pairs)}"
    if worse:
        largest = max(mine / theirs for mine, theirs in pairs)
        said += f"; not in {len(worse)} from {worse[0]} s to {worse[-1]} s, at worst {largest:.2f} times as many"
    return Verdict("hybrid has fewer evaluations than parallel-track in every second", not worse, said)


def print_tables(result: dict[str, Any], verdicts: list[Verdict]) -> None:
    """Print what people compare."""
    console = wide_console()
    given = result["parameters"]
    window = given["window_s"]
    for plan, ways in result["plans"].items():
        table = Table(title=f"{given['old_plan']} to {plan}, {given['rate']:g} rows/s, windows of {window} s")
        table.add_column("way", no_wrap=True)
        headings = ("rows out", "evaluations", "peak tuples", "lasts s", "gap s", "held s", "switch ms", "run s")
        for heading in headings:
            table.add_column(heading, justify="right")
        for way, told in ways.items():
            table.add_row(way, *_cells(told))
        console.print(table)
    over_time(result["plans"][RIGHT_DEEP], window, console)
    table = Table(title=f"To {RIGHT_DEEP} at low rates")
    table.add_column("way")
    for heading in ("rows/s", "evaluations", "peak tuples", "lasts s"):
        table.add_column(heading, justify="right")
    for rate, ways in result["low_rates"].items():
        for way, told in ways.items():
            _, evaluations, tuples, lasts = _cells(told)[:4]
            table.add_row(way, rate, evaluations, tuples, lasts)
    console.print(table)
    print_verdicts(console, verdicts)


def over_time(ways: dict[str, Any], window_s: int, console: Any) -> None:
    """Print evaluations and tuples of some seconds."""
    shown = [window_s * part // 6 for part in range(7)]
    for name, title in (("evaluations", "Thousand evaluations"), ("tuples", "Thousand tuples in states")):
        table = Table(title=f"{title}, in the second that begins so long after the change")
        table.add_column("way")
        for second in shown:
            table.add_column(f"{second} s", justify="right")
        for way, told in ways.items():
            figures = told["per_second"][name]
            table.add_row(way, *(f"{figures[second] / 1000:,.0f}" for second in shown))
        console.print(table)


def _cells(told: dict[str, Any]) -> list[str]:
    duration = "not over" if told["duration_s"] is None else f"{told['duration_s']:.1f}"
    return [
        f"{told['rows_out']:,}",
        f"{told['evaluations']:,}",
        f"{told['peak_tuples']:,}",
        duration,
        f"{told['longest_gap_s']:.2f}",
        f"{told['held_back_s']:.1f}",
        f"{told['switch_ms']:.0f}",
        f"{told['wall_s']:.1f}",
    ]
