"""Just-in-time migration of 20 and 60 hash joins (JISC's set-up), beside the other ways, no migration, and CACQ.

two windows of warm-up ──▶ one window from the migration on, timed ──▶ one more window of normal operation, timed

All contenders go on from the same states over the same rows, in turns. Times are CPU times, the best of all turns;
ratios are the median of the turns' own. Best case: one state of the new plan is missing. Worst case: all are.
"""

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time
from typing import Any

from rich.table import Table

from benchmarks.direct import DirectRun
from benchmarks.measure import Progress, on_one_core
from benchmarks.migration_parts.bare import BareTree
from benchmarks.migration_parts.chain import EVEN, UNIFORM, Chain
from benchmarks.migration_parts.frozen import FrozenRun, freeze_after
from benchmarks.migration_parts.verdict import Verdict, print_verdicts
from midstream.app.show import wide_console
from midstream.engine.rows.rows import Rows
from midstream.migrate.record import FINISHED
from midstream.migrate.request import JUST_IN_TIME, MOVING_STATE, PARALLEL_TRACK, MigrationRequest

SETS = ((20, UNIFORM, 1.0, 9), (20, EVEN, 1.0, 5), (60, EVEN, 1.0, 3))
"""Joins, how keys are drawn, keys per row of a window, turns.

With uniform keys 60 joins leave nothing: there every window holds every key once.
"""
WARM_UP_WINDOWS = 2
STRATEGIES = (JUST_IN_TIME, PARALLEL_TRACK, MOVING_STATE)
BEST, WORST = "best case", "worst case"
STAY, NEW, CACQ = "old plan, no migration", "new plan, no migration", "cacq"
PLAIN, MIGRATED = "plain tree", "tree after just-in-time"
ALLOWED = {BEST: 1.15, WORST: 1.6}
"""Just-in-time as a multiple of no migration."""
ALLOWED_NORMAL, ALLOWED_OF_CACQ = 1.03, 0.7

Batches = list[dict[str, Rows]]


@dataclass
class Contender:
    """Somebody who runs the rows of a window, timed again and again."""

    start: Callable[[], DirectRun]
    times_s: list[float] = field(default_factory=list)
    """CPU time of each turn."""
    rows_out: int = 0
    checksum: int = 0
    """The same for the same results in any order."""
    state_bytes: int = 0
    migration: dict[str, Any] | None = None

    def run(self, batches: Batches) -> None:
        """Run once more."""
        runtime = self.start()
        found = []
        gc.collect()
        started = process_time()
        for rows in batches:
            found += [results.rows for results in runtime.on_rows(rows)]
        found += [results.rows for results in runtime.finish()]
        self.times_s.append(process_time() - started)
        self.rows_out = sum(rows.num_rows for rows in found)
        columns = [(rows.column("_time").to_numpy(), rows.column("k").to_numpy()) for rows in found]
        self.checksum = sum(int((times % 1_000_003 * (keys + 1)).sum()) for times, keys in columns)
        self.state_bytes = runtime.size().nbytes
        self.migration = runtime.records()[0].to_dict() if runtime.records() else None

    def of(self, other: "Contender") -> float:
        """Return its time as a multiple of another's: the median over the turns, in which neighbours disturb both."""
        return statistics.median(a / b for a, b in zip(self.times_s, other.times_s, strict=True))

    def figures(self, rows_in: int, others: dict[str, "Contender"]) -> dict[str, Any]:
        """Return what it did, and its time as a multiple of all others'."""
        return {
            "cpu_s": min(self.times_s),
            "rows_per_s": rows_in / min(self.times_s),
            "turns_s": self.times_s,
            "of": {name: self.of(other) for name, other in others.items()},
            "rows_out": self.rows_out,
            "state_bytes": self.state_bytes,
            "migration": self.migration,
        }


Contenders = dict[str, Contender]


class Experiment:
    """One chain of joins: what the window after a migration costs, and what normal operation does."""

    def __init__(self, chain: Chain, turns: int, seed: int) -> None:
        self.chain = chain
        self.turns = turns
        *warm_up, self.stage, self.normal = chain.batches(WARM_UP_WINDOWS + 2, seed)
        self.warm_up = [rows for window in warm_up for rows in window]
        self.old = self._warm(chain.old_plan())
        self.eddy = self._warm(chain.old_plan(), framework="cacq")

    def _warm(self, plan: str, framework: str = "tree") -> FrozenRun:
        return freeze_after(DirectRun(self.chain.planned(plan), framework=framework), self.warm_up)

    def _request(self, plan: str, strategy: str) -> MigrationRequest:
        return MigrationRequest(plan, strategy, at_us=WARM_UP_WINDOWS * self.chain.window_us)

    def _migrating(self, plan: str, strategy: str) -> Contender:
        request = self._request(plan, strategy)
        return Contender(lambda: self.old.thaw([request]))

    def migrate(self) -> dict[str, Contenders]:
        """Time the window from the migration on, each way, in both cases."""
        rerouted = self._request(self.chain.worst_case(), MOVING_STATE)
        both = {STAY: Contender(self.old.thaw), CACQ: Contender(lambda: self.eddy.thaw([rerouted]))}
        apart: dict[str, Contenders] = {}
        for case, plan in ((BEST, self.chain.best_case()), (WORST, self.chain.worst_case())):
            apart[case] = {NEW: Contender(self._warm(plan).thaw)}
            apart[case] |= {strategy: self._migrating(plan, strategy) for strategy in STRATEGIES}
        take_turns([*both.values(), *apart[BEST].values(), *apart[WORST].values()], self.stage, self.turns)
        return {case: {STAY: both[STAY], **contenders, CACQ: both[CACQ]} for case, contenders in apart.items()}

    def operate(self) -> Contenders:
        """Time a window of normal operation, after a just-in-time migration and without any."""
        plan = self.chain.best_case()
        before = [*self.stage, *self.normal[:1]]
        migrated = self.old.thaw([self._request(plan, JUST_IN_TIME)])
        after = freeze_after(migrated, before)
        assert migrated.records()[0].state == FINISHED, "every old row has left its window"
        never = freeze_after(self._warm(plan).thaw(), before)
        eddy = freeze_after(self.eddy.thaw([self._request(plan, MOVING_STATE)]), before)
        contenders = {
            PLAIN: Contender(lambda: bare(never.thaw())),
            MIGRATED: Contender(after.thaw),
            CACQ: Contender(eddy.thaw),
        }
        take_turns(list(contenders.values()), self.normal[1:], self.turns)
        return contenders


def bare(runtime: DirectRun) -> DirectRun:
    """Take away what could migrate a run."""
    runtime.migrators = [BareTree(m.plan, m.pipeline) for m in runtime.migrators]
    return runtime


def take_turns(contenders: list[Contender], batches: Batches, turns: int) -> None:
    """Run all contenders one after the other, then back again, and so on; a short run before loads their kernels."""
    for contender in contenders:
        contender.run(batches[:2])
        contender.times_s.clear()
    for turn in range(turns):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            contender.run(batches)


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return all figures and print them; `seconds` is the event time in which a window turns over, 10 s by default."""
    on_one_core()
    window_rows = 10_000 if seconds is None else max(100, round(1_000 * seconds))
    results, verdicts = [], []
    for place, (joins, keys, spread, turns) in enumerate(SETS):
        # Small windows, too, are several micro-batches: normal operation is timed after the first of them.
        batch_rows = min(50_000, window_rows * (joins + 1) // 4)
        chain = Chain(joins, keys, window_rows, round(window_rows * spread), batch_rows)
        experiment = Experiment(chain, turns, seed)
        cases = experiment.migrate()
        progress(2 * place + 1, 2 * len(SETS))
        normal = experiment.operate()
        progress(2 * place + 2, 2 * len(SETS))
        told = {
            "parameters": {**chain.parameters(), "turns": turns},
            "cases": {case: figures(contenders, experiment.stage) for case, contenders in cases.items()},
            "normal": figures(normal, experiment.normal[1:]),
        }
        verdicts += [v for case, contenders in cases.items() for v in judge_case(chain, case, contenders)]
        verdicts += judge_normal(chain, normal)
        print_tables(told)
        results.append(told)
    print_verdicts(wide_console(), verdicts)
    own = results[0]["cases"][WORST][JUST_IN_TIME]
    return {
        "rows_per_s": own["rows_per_s"],
        "peak_bytes": own["state_bytes"],
        "sets": results,
        "verdicts": [v.to_dict() for v in verdicts],
        "parameters": {"window_rows": window_rows, "warm_up_windows": WARM_UP_WINDOWS, "seed": seed},
    }


def figures(contenders: Contenders, batches: Batches) -> dict[str, Any]:
    """Return what all contenders did with the rows of these micro-batches."""
    rows_in = sum(len(r.times) for rows in batches for r in rows.values())
    return {name: contender.figures(rows_in, contenders) for name, contender in contenders.items()}


def judge_case(chain: Chain, case: str, contenders: Contenders) -> list[Verdict]:
    """Tell which requirements on a migration hold."""
    own, beside, new, stay = (contenders[name] for name in (JUST_IN_TIME, PARALLEL_TRACK, NEW, STAY))
    about = f"{chain.joins} joins, {chain.keys} keys, {case}"
    ratio = own.of(new)
    others = f"{beside.of(new):.2f} and {beside.of(stay):.2f}"
    said = f"{ratio:.2f}, and {own.of(stay):.2f} of the old plan (parallel-track: {others})"
    same = len({(c.rows_out, c.checksum) for c in contenders.values()}) == 1
    return [
        Verdict(f"{about}: just-in-time / no migration <= {ALLOWED[case]}", ratio <= ALLOWED[case], said),
        Verdict(f"{about}: all give the same results", same, f"{stay.rows_out:,}"),
    ]


def judge_normal(chain: Chain, contenders: Contenders) -> list[Verdict]:
    """Tell which requirements on normal operation hold."""
    about = f"{chain.joins} joins, {chain.keys} keys, normal operation"
    plain = contenders[PLAIN]
    ratio = contenders[MIGRATED].of(plain)
    requirement = f"{about}: tree after just-in-time / plain tree <= {ALLOWED_NORMAL}"
    verdicts = [Verdict(requirement, ratio <= ALLOWED_NORMAL, f"{ratio:.3f}")]
    if chain.joins == 20:
        ratio = plain.of(contenders[CACQ])
        requirement = f"{about}: tree / CACQ <= {ALLOWED_OF_CACQ}"
        verdicts.append(Verdict(requirement, ratio <= ALLOWED_OF_CACQ, f"{ratio:.2f}"))
    return verdicts


def print_tables(told: dict[str, Any]) -> None:
    """Print what people compare."""
    given = told["parameters"]
    keys = f"{given['key_count']:,} {given['keys']} keys"
    about = f"{given['joins']} joins, {keys}, windows of {given['window_rows']:,} rows"
    table = Table(title=f"{about}: the window after a migration")
    table.add_column("", no_wrap=True)
    for heading in ("CPU s", "rows/s", "of new plan", "of old plan", "rows out", "entries completed", "switch ms"):
        table.add_column(heading, justify="right")
    for case, contenders in told["cases"].items():
        table.add_row(f"[bold]{case}[/bold]")
        for name, figure in contenders.items():
            record = figure["migration"]
            table.add_row(
                f"  {name}",
                f"{figure['cpu_s']:.3f}",
                f"{figure['rows_per_s']:,.0f}",
                f"{figure['of'][NEW]:.2f}",
                f"{figure['of'][STAY]:.2f}",
                f"{figure['rows_out']:,}",
                f"{record['entries_completed']:,}" if record else "",
                f"{record['start_ms']:.0f}" if record else "",
            )
    console = wide_console()
    console.print(table)
    table = Table(title=f"{about}: normal operation")
    table.add_column("", no_wrap=True)
    for heading in ("CPU s", "rows/s", "of plain tree", "of CACQ"):
        table.add_column(heading, justify="right")
    for name, figure in told["normal"].items():
        ratios = (f"{figure['of'][PLAIN]:.3f}", f"{figure['of'][CACQ]:.3f}")
        table.add_row(name, f"{figure['cpu_s']:.3f}", f"{figure['rows_per_s']:,.0f}", *ratios)
    console.print(table)
