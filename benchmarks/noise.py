"""The adaptive loop over streams that are alike but for chance: nothing is to be gained, and little may be lost.

Every 5 seconds the rates and keys of all streams are drawn anew within 15 % of a mean, for an hour of event time.
"""

from typing import Any

from rich.table import Table

from benchmarks.drift import at_least, verdict
from benchmarks.drift_parts.contenders import Ran, run_whole
from benchmarks.drift_parts.streams import around_a_tie
from benchmarks.measure import Progress, on_one_core
from benchmarks.migration_parts.verdict import Verdict, print_verdicts
from midstream.app.show import wide_console

SECONDS, RATE, WINDOW_S, STREAMS, TURNS = 3600.0, 1000.0, 5.0, 4, 2
MOST_AN_HOUR, OVERHEAD = 2, 1.03
AUTO, STAYS = "auto", "the plan stays"


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of both and print them."""
    on_one_core()
    whole = SECONDS if seconds is None else seconds
    drift = around_a_tie(whole, RATE, min(WINDOW_S, whole / 4), STREAMS, seed)
    tables = drift.tables(seed)
    plan = drift.best(drift.phases[0])
    found = {STAYS: Ran(STAYS), AUTO: Ran(AUTO)}
    for turn in range(-1, TURNS):  # the first one compiles
        for place, (name, ran) in enumerate(found.items()):
            run_whole(ran, drift, tables, plan, **({"optimize": "auto"} if name == AUTO else {}))
            progress((turn + 1) * len(found) + place + 1, (TURNS + 1) * len(found))
        if turn < 0:
            for ran in found.values():
                ran.cpu_s.clear()
    auto, stays = found[AUTO], found[STAYS]
    hours = whole / 3600
    migrations = len(auto.migrations)
    verdicts = [
        Verdict("at most two migrations an hour", migrations <= max(MOST_AN_HOUR * hours, 1), f"{migrations}"),
        verdict("less than 3 % more CPU time than the plan that stays", auto.best_s / stays.best_s, OVERHEAD),
        verdict("less than 3 % more evaluations", auto.evaluations / stays.evaluations, OVERHEAD),
        at_least("both give the same results", float(auto.checksum == stays.checksum), 1.0),
    ]  # fmt: skip
    console = wide_console()
    table = Table(title=f"A join of {STREAMS} streams around a tie")
    table.add_column("who", no_wrap=True)
    for heading in ("CPU s", "evaluations", "migrations", "rows out"):
        table.add_column(heading, justify="right")
    for name, ran in found.items():
        table.add_row(name, f"{ran.best_s:.2f}", f"{ran.evaluations:,}", str(len(ran.migrations)), f"{ran.rows_out:,}")
    console.print(table)
    print_verdicts(console, verdicts)
    return {
        "rows_per_s": auto.rows_in / auto.best_s,
        "peak_bytes": auto.peak_bytes,
        "contenders": {name: ran.figures() for name, ran in found.items()},
        "verdicts": [v.to_dict() for v in verdicts],
        "parameters": {**drift.parameters, "seconds": whole, "window_s": drift.window_s, "seed": seed, "turns": TURNS},
    }
