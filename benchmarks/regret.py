"""What the adaptive loop costs over drawn drifts, beside plans that stay, forced strategies, CACQ and STAIRs.

For each drift everybody runs the same rows; figures are multiples of who knows the drift and switches for free.
"""

from collections.abc import Callable, Sequence
from math import exp, log
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.drift_parts.contenders import Ran, run_phases, run_schedule, run_whole
from benchmarks.drift_parts.streams import Drift, drawn, every_tree
from benchmarks.measure import Progress, on_one_core
from benchmarks.migration_parts.verdict import Verdict, print_verdicts
from midstream.app.show import wide_console
from midstream.migrate.request import OF_JOINS
from midstream.plan.tree import parse_tree

DRIFTS, PHASE_S, STATIC = 50, 20.0, 15
"""Drifts, seconds of a phase, and plans that stay: all of them, or a spread of so many where there are more."""
ORACLE, AUTO, CACQ, STAIRS = "knows the drift", "auto", "cacq", "stairs, as auto migrates"
BEST, MEDIAN, WORST = "the best plan that stays", "the median plan that stays", "the worst plan that stays"


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of all contenders and print them; `seconds` is how long a phase is."""
    on_one_core()
    phase_s = PHASE_S if seconds is None else seconds
    drifts = list(drawn(DRIFTS, seed, phase_s))
    rows, found, same = 0, [], True
    peak = 0
    spent = 0.0
    for place, drift in enumerate(drifts):
        ran = compare(drift, seed)
        same = same and len({(r.rows_out, r.checksum) for r in ran.values()}) == 1
        rows, peak = rows + ran[AUTO].rows_in, max(peak, ran[AUTO].peak_bytes)
        spent += ran[AUTO].best_s
        found.append({name: r.figures() for name, r in ran.items()})
        progress(place + 1, len(drifts))
    evaluations = table_of(found, lambda f: f["predicate_evaluations"])
    cpu = table_of(found, lambda f: f["cpu_s"])
    verdicts = [Verdict("all give the same results", same, f"{len(drifts)} drifts")]
    print_table("Predicate evaluations", evaluations)
    print_table("CPU time", cpu)
    print_verdicts(wide_console(), verdicts)
    return {
        "rows_per_s": rows / spent,
        "peak_bytes": peak,
        "evaluations": evaluations,
        "cpu": cpu,
        "drifts": found,
        "verdicts": [v.to_dict() for v in verdicts],
        "parameters": {"drifts": len(drifts), "phase_s": phase_s, "seed": seed},
    }


def compare(drift: Drift, seed: int) -> dict[str, Ran]:
    """Run everybody over one drift."""
    tables = drift.tables(seed)
    best = [drift.best(phase) for phase in drift.phases]
    ran = {ORACLE: run_phases(Ran(ORACLE), drift, tables, best)}
    ran[AUTO] = run_whole(Ran(AUTO), drift, tables, best[0], optimize="auto")
    moves = [(m["position_us"], m["plan"]) for m in ran[AUTO].migrations]
    for strategy in OF_JOINS:
        ran[strategy] = run_schedule(Ran(strategy), drift, tables, best[0], moves, strategy)
    ran[CACQ] = run_whole(Ran(CACQ), drift, tables, best[0], framework="cacq")
    ran[STAIRS] = run_schedule(Ran(STAIRS), drift, tables, best[0], moves, "just-in-time", framework="stairs")
    trees = list(every_tree(list(drift.names)))
    ranked = sorted(trees, key=lambda tree: drift.expected(parse_tree(tree, tuple(drift.names))))
    # The dearest of many take as long as all others together, and nobody would run them.
    places = np.geomspace(1, len(ranked) / 3, STATIC).astype(int) - 1
    chosen = ranked if len(ranked) <= STATIC else [ranked[k] for k in places]
    stay = [run_whole(Ran(tree), drift, tables, tree) for tree in dict.fromkeys(chosen)]
    stay.sort(key=lambda r: r.evaluations)
    return ran | {BEST: stay[0], MEDIAN: stay[len(stay) // 2], WORST: stay[-1]}


def table_of(found: Sequence[dict[str, Any]], figure: Callable[[dict[str, Any]], float]) -> dict[str, dict[str, float]]:
    """Return for each contender its multiples of who knows the drift: the geometric mean, and how bad it gets."""
    out = {}
    for name in found[0]:
        ratios = [(figure(one[name]) + 1e-3) / (figure(one[ORACLE]) + 1e-3) for one in found]
        mean = exp(sum(map(log, ratios)) / len(ratios))
        out[name] = {"mean": mean, "p90": float(np.quantile(ratios, 0.9)), "worst": max(ratios)}
    return out


def print_table(title: str, figures: dict[str, dict[str, float]]) -> None:
    """Print what people compare."""
    table = Table(title=f"{title}, as multiples of who knows the drift and switches for free")
    table.add_column("who", no_wrap=True)
    for heading in ("mean", "p90", "worst"):
        table.add_column(heading, justify="right")
    for name, each in figures.items():
        table.add_row(name, *(f"{each[k]:.2f}" for k in ("mean", "p90", "worst")))
    wide_console().print(table)
