"""The adaptive loop over streams that drift: beside who knows the drift and switches for free, and plans that stay.

Selectivities rotate among six streams every two minutes, and every other stream comes four times as often, the others
in the next phase; windows of 2 s, nested loops. All contenders run the same rows in turns; CPU time, the best turn of
each. Plans that stay: those of all 945 that take the least over all phases, by who knows the drift.
"""

from typing import Any

from rich.table import Table

from benchmarks.drift_parts.contenders import Ran, run_phases, run_whole
from benchmarks.drift_parts.streams import Drift, every_tree, rotating
from benchmarks.measure import Progress, on_one_core
from benchmarks.migration_parts.verdict import Verdict, print_verdicts
from midstream.app.show import wide_console
from midstream.plan.tree import parse_tree

PHASE_S, LOW, WINDOW_S = 120.0, 400.0, 2.0
SECONDS, TURNS, STATIC = 720.0, 1, 2
"""Event time, turns, and how many plans that stay: those that are best over all phases."""
OF_ORACLE, OF_STATIC = 1.15, 2.0
ORACLE, AUTO = "knows the drift, switches for free", "auto"


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of all contenders and print them."""
    on_one_core()
    whole = SECONDS if seconds is None else seconds
    drift = rotating(whole, min(PHASE_S, whole / 6), LOW, min(WINDOW_S, whole / 30))
    tables = drift.tables(seed)
    best = [drift.best(p) for p in drift.phases]
    stay = plans_that_stay(drift)
    found = {name: Ran(name) for name in (ORACLE, AUTO, *stay)}
    small = rotating(6.0, 1.0, 20.0, 0.2)
    run_whole(Ran("compiles"), small, small.tables(seed), best[0], optimize="auto")
    for turn in range(TURNS):
        for place, (name, ran) in enumerate(found.items()):
            if name == ORACLE:
                run_phases(ran, drift, tables, best)
            elif name == AUTO:
                run_whole(ran, drift, tables, best[0], optimize="auto")
            else:
                run_whole(ran, drift, tables, name)
            progress(turn * len(found) + place + 1, TURNS * len(found))
    auto, oracle = found[AUTO], found[ORACLE]
    static = min((found[name] for name in stay), key=lambda r: r.best_s)
    same = {(r.rows_out, r.checksum) for name, r in found.items()}
    fewest = min(found[name].evaluations for name in stay)
    verdicts = [
        verdict("auto takes little more CPU time than who knows the drift", auto.best_s / oracle.best_s, OF_ORACLE),
        verdict("and few more evaluations", auto.evaluations / oracle.evaluations, OF_ORACLE),
        at_least("the best plan that stays takes far more CPU time than auto", static.best_s / auto.best_s, OF_STATIC),
        at_least("and far more evaluations", fewest / auto.evaluations, OF_STATIC),
        Verdict("all give the same results", len(same) == 1, f"{auto.rows_out:,} rows"),
    ]
    print_table(found, verdicts)
    return {
        "rows_per_s": auto.rows_in / auto.best_s,
        "peak_bytes": auto.peak_bytes,
        "contenders": {name: ran.figures() for name, ran in found.items()},
        "verdicts": [v.to_dict() for v in verdicts],
        "parameters": {**drift.parameters, "seconds": whole, "window_s": drift.window_s, "seed": seed, "turns": TURNS},
    }


def plans_that_stay(drift: Drift) -> list[str]:
    """Return the plans that take the least over all phases, by who knows the drift."""
    trees = every_tree(list(drift.names))
    ranked = sorted(trees, key=lambda tree: drift.expected(parse_tree(tree, tuple(drift.names))))
    return ranked[:STATIC]


def verdict(requirement: str, ratio: float, most: float) -> Verdict:
    """Tell whether a ratio is small enough."""
    return Verdict(requirement, ratio <= most, f"{ratio:.2f} times, at most {most:g}")


def at_least(requirement: str, ratio: float, least: float) -> Verdict:
    """Tell whether a ratio is large enough."""
    return Verdict(requirement, ratio >= least, f"{ratio:.2f} times, at least {least:g}")


def print_table(found: dict[str, Ran], verdicts: list[Verdict]) -> None:
    """Print what people compare."""
    console = wide_console()
    table = Table(title="A join of six streams that drift")
    table.add_column("who", no_wrap=True)
    for heading in ("CPU s", "evaluations", "migrations", "rows out"):
        table.add_column(heading, justify="right")
    for name, ran in found.items():
        table.add_row(name, f"{ran.best_s:.2f}", f"{ran.evaluations:,}", str(len(ran.migrations)), f"{ran.rows_out:,}")
    console.print(table)
    print_verdicts(console, verdicts)
