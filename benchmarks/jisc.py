"""Just-in-time migration of 20 and 60 hash joins (JISC's set-up), beside the other ways, no migration, and CACQ.

two windows of warm-up ──▶ one window from the migration on, timed ──▶ one more window of normal operation, timed

All contenders go on from the same states over the same rows, in turns; the best of several repeats counts. Best case:
one state of the new plan is missing. Worst case: all are.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time
from typing import Any

from rich.table import Table

from benchmarks.measure import Progress, on_one_core
from benchmarks.migration_parts.bare import BareTree
from benchmarks.migration_parts.chain import EVEN, UNIFORM, Chain
from benchmarks.migration_parts.frozen import FrozenRun, freeze_after
from benchmarks.migration_parts.verdict import Verdict, print_verdicts
from midstream.app.show import wide_console
from midstream.migrate.record import FINISHED
from midstream.migrate.request import JUST_IN_TIME, MOVING_STATE, PARALLEL_TRACK, MigrationRequest
from midstream.runtime.local import LocalRuntime
from midstream.runtime.sources import StreamRows

SETS = ((20, EVEN, 7), (20, UNIFORM, 7), (60, UNIFORM, 4), (60, EVEN, 3))
"""Joins, keys, repeats."""
STRATEGIES = (JUST_IN_TIME, PARALLEL_TRACK, MOVING_STATE)
BEST, WORST = "best case", "worst case"
STAY, NEW = "old plan, no migration", "new plan, no migration"
CACQ, PLAIN, FINISHED_TREE = "cacq", "plain tree", "tree after just-in-time"
ALLOWED = {BEST: 1.15, WORST: 1.6}
ALLOWED_NORMAL, ALLOWED_OF_CACQ = 1.03, 0.7
WARM_UP_WINDOWS = 2

Batches = list[dict[str, StreamRows]]


@dataclass
class Contender:
    """Somebody who runs the rows of a window, timed again and again."""

    start: Callable[[], LocalRuntime]
    times_s: list[float] = field(default_factory=list)
    """CPU time of each repeat."""
    rows_out: int = 0
    checksum: int = 0
    peak_bytes: int = 0
    record: dict[str, Any] | None = None

    @property
    def best_s(self) -> float:
        return min(self.times_s)

    def run(self, batches: Batches) -> None:
        """Run once more."""
        runtime = self.start()
        found = []
        gc.collect()
        started = process_time()
        for rows in batches:
            found += [results.rows for results in runtime.on_rows(rows)]
            runtime.work()
        found += [results.rows for results in runtime.finish()]
        self.times_s.append(process_time() - started)
        self.rows_out = sum(rows.num_rows for rows in found)
        columns = [(rows.column("_time").to_numpy(), rows.column("k").to_numpy()) for rows in found]
        self.checksum = sum(int((times % 1_000_003 * (keys + 1)).sum()) for times, keys in columns)
        self.peak_bytes = runtime.size().nbytes
        self.record = runtime.records()[0].to_dict() if runtime.records() else None

    def figures(self, rows_in: int) -> dict[str, Any]:
        return {
            "cpu_s": self.best_s,
            "rows_per_s": rows_in / self.best_s,
            "repeats_s": self.times_s,
            "rows_out": self.rows_out,
            "state_bytes": self.peak_bytes,
            "migration": self.record,
        }


class Experiment:
    """One chain of joins: what happens after a migration, and what normal operation costs."""

    def __init__(self, chain: Chain, repeats: int, seed: int) -> None:
        self.chain = chain
        self.repeats = repeats
        *self.warm_up, self.stage, self.normal = chain.batches(WARM_UP_WINDOWS + 2, seed)
        self.rows_in = chain.window_rows * len(chain.names)
        old = self._warm(chain.old_plan())
        eddy = self._warm(chain.old_plan(), framework="cacq")
        self.old, self.eddy = old, eddy

    def _warm(self, plan: str, framework: str = "tree") -> FrozenRun:
        runtime = LocalRuntime(self.chain.planned(plan), framework=framework)
        return freeze_after(runtime, [rows for window in self.warm_up for rows in window])

    def _request(self, plan: str, strategy: str) -> MigrationRequest:
        return MigrationRequest(plan, strategy, at_us=WARM_UP_WINDOWS * self.chain.window_us)

    def migrate(self, case: str) -> dict[str, Contender]:
        """Time the window from the migration on, each way."""
        plan = self.chain.best_case() if case == BEST else self.chain.worst_case()
        new = self._warm(plan)
        contenders = {STAY: Contender(self.old.thaw), NEW: Contender(new.thaw)}
        for strategy in STRATEGIES:
            request = self._request(plan, strategy)
            contenders[strategy] = Contender(lambda request=request: self.old.thaw([request]))  # type: ignore[misc]
        rerouted = self._request(plan, MOVING_STATE)
        contenders[CACQ] = Contender(lambda: self.eddy.thaw([rerouted]))
        take_turns(contenders, self.stage, self.repeats)
        return contenders

    def operate(self) -> dict[str, Contender]:
        """Time a window of normal operation, after a just-in-time migration and without any."""
        plan = self.chain.best_case()
        migrated = self.old.thaw([self._request(plan, JUST_IN_TIME)])
        start, rest = self.normal[:1], self.normal[1:]
        after = freeze_after(migrated, [*self.stage, *start])
        assert migrated.records()[0].state == FINISHED, "every old row has left its window"
        never = freeze_after(self._warm(plan).thaw(), [*self.stage, *start])
        eddy = freeze_after(self.eddy.thaw([self._request(plan, MOVING_STATE)]), [*self.stage, *start])
        contenders = {
            PLAIN: Contender(lambda: bare(never.thaw())),
            FINISHED_TREE: Contender(after.thaw),
            CACQ: Contender(eddy.thaw),
        }
        take_turns(contenders, rest, 2 * self.repeats)
        return contenders


def bare(runtime: LocalRuntime) -> LocalRuntime:
    """Take away what could migrate a run."""
    runtime.migrators = [BareTree(m.plan, m.pipeline) for m in runtime.migrators]
    return runtime


def take_turns(contenders: dict[str, Contender], batches: Batches, repeats: int) -> None:
    """Run all contenders, one after the other, again and again."""
    for _ in range(repeats):
        for contender in contenders.values():
            contender.run(batches)


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return all figures and print them; `seconds` is the event time in which a window turns over, 10 s by default."""
    on_one_core()
    window_rows = 10_000 if seconds is None else max(100, round(1_000 * seconds))
    results, verdicts = [], []
    for place, (joins, keys, repeats) in enumerate(SETS):
        chain = Chain(joins, keys, window_rows, window_rows)
        experiment = Experiment(chain, repeats, seed)
        told: dict[str, Any] = {"parameters": chain.parameters(), "cases": {}}
        for done, case in enumerate((BEST, WORST)):
            contenders = experiment.migrate(case)
            told["cases"][case] = figures(contenders, experiment.rows_in)
            verdicts += judge_case(chain, case, contenders)
            progress(3 * place + done + 1, 3 * len(SETS))
        contenders = experiment.operate()
        told["normal"] = figures(contenders, experiment.rows_in - chain.batch_rows)
        verdicts += judge_normal(chain, contenders)
        progress(3 * place + 3, 3 * len(SETS))
        print_tables(told)
        results.append(told)
    print_verdicts(wide_console(), verdicts)
    first = results[0]["cases"][WORST][JUST_IN_TIME]
    return {
        "rows_per_s": first["rows_per_s"],
        "peak_bytes": first["state_bytes"],
        "sets": results,
        "verdicts": [v.to_dict() for v in verdicts],
        "parameters": {"window_rows": window_rows, "warm_up_windows": WARM_UP_WINDOWS, "seed": seed},
    }


def figures(contenders: dict[str, Contender], rows_in: int) -> dict[str, Any]:
    return {name: contender.figures(rows_in) for name, contender in contenders.items()}


def judge_case(chain: Chain, case: str, contenders: dict[str, Contender]) -> list[Verdict]:
    """Tell which requirements on a migration hold."""
    own, new, stay = (contenders[name].best_s for name in (JUST_IN_TIME, NEW, STAY))
    beside = contenders[PARALLEL_TRACK].best_s
    about = f"{chain.joins} joins, {chain.keys} keys, {case}"
    said = f"{own / new:.2f} (old plan: {own / stay:.2f}; parallel-track: {beside / new:.2f} and {beside / stay:.2f})"
    same = len({(c.rows_out, c.checksum) for c in contenders.values()}) == 1
    return [
        Verdict(f"{about}: just-in-time / no migration <= {ALLOWED[case]}", own / new <= ALLOWED[case], said),
        Verdict(f"{about}: all give the same results", same, f"{contenders[STAY].rows_out:,}"),
    ]


def judge_normal(chain: Chain, contenders: dict[str, Contender]) -> list[Verdict]:
    """Tell which requirements on normal operation hold."""
    after, plain, eddy = (contenders[name].best_s for name in (FINISHED_TREE, PLAIN, CACQ))
    about = f"{chain.joins} joins, {chain.keys} keys, normal operation"
    found = [
        Verdict(
            f"{about}: tree after just-in-time / plain tree <= {ALLOWED_NORMAL}",
            after / plain <= ALLOWED_NORMAL,
            f"{after / plain:.3f}",
        )
    ]
    if chain.joins == 20:
        requirement = f"{about}: tree / CACQ <= {ALLOWED_OF_CACQ}"
        found.append(Verdict(requirement, plain / eddy <= ALLOWED_OF_CACQ, f"{plain / eddy:.2f}"))
    return found


def print_tables(told: dict[str, Any]) -> None:
    """Print what people compare."""
    given = told["parameters"]
    about = f"{given['joins']} joins, {given['keys']} keys, windows of {given['window_rows']:,} rows"
    table = Table(title=f"{about}: the window after a migration")
    table.add_column("", no_wrap=True)
    for heading in ("CPU s", "rows/s", "of new plan", "of old plan", "rows out", "entries completed", "switch ms"):
        table.add_column(heading, justify="right")
    for case, contenders in told["cases"].items():
        table.add_row(f"[bold]{case}[/bold]")
        for name, figure in contenders.items():
            record = figure["migration"] or {}
            table.add_row(
                f"  {name}",
                f"{figure['cpu_s']:.3f}",
                f"{figure['rows_per_s']:,.0f}",
                f"{figure['cpu_s'] / contenders[NEW]['cpu_s']:.2f}",
                f"{figure['cpu_s'] / contenders[STAY]['cpu_s']:.2f}",
                f"{figure['rows_out']:,}",
                f"{record['entries_completed']:,}" if record else "",
                f"{record['start_ms']:.0f}" if record else "",
            )
    console = wide_console()
    console.print(table)
    table = Table(title=f"{about}: normal operation")
    table.add_column("", no_wrap=True)
    for heading in ("CPU s", "rows/s", "of plain tree"):
        table.add_column(heading, justify="right")
    for name, figure in told["normal"].items():
        ratio = figure["cpu_s"] / told["normal"][PLAIN]["cpu_s"]
        table.add_row(name, f"{figure['cpu_s']:.3f}", f"{figure['rows_per_s']:,.0f}", f"{ratio:.3f}")
    console.print(table)
