"""Live changes on Spark with an audit: rows, order and every count of the record are as in process, at any buckets."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine.test_live_changes import CLOCKS

from oracle.change_run import Oracle
from oracle.changes import METHODS
from oracle.live_scripts import LiveScript, draw_live, draw_live_migrating
from oracle.test_changes import run_engine
from seeds import numbers

pytestmark = pytest.mark.spark


BATCHES = 4
"""With rows; some more follow."""


def scripts() -> dict[str, LiveScript]:
    """Draw the scripts of this run: each method alone, some that meet, some with migrations, some by number."""
    found: dict[str, LiveScript] = {}
    for place, method in enumerate(METHODS):
        for seed in numbers(0, 8):
            found[f"{method} {seed}"] = draw_live(random.Random(2_000_000 + 100 * place + seed), [method], BATCHES)
    for seed in numbers(0, 48):
        rnd = random.Random(2_100_000 + seed)
        found[f"meet {seed}"] = draw_live(rnd, [rnd.choice(METHODS) for _ in range(rnd.choice([2, 3]))], BATCHES)
    for seed in numbers(0, 16):
        found[f"migrate {seed}"] = draw_live_migrating(random.Random(2_200_000 + seed), BATCHES)
    for seed in numbers(0, 8):
        rnd = random.Random(2_300_000 + seed)
        script = draw_live(rnd, [rnd.choice(METHODS) for _ in range(2)], BATCHES)
        found[f"registered {seed}"] = replace(script, registered=True)
    return found


def test_live_changes_are_as_in_process(tmp_path: Path, spark: Any) -> None:
    from spark.side_by_side import LiveRun, run_side_by_side

    runs = {
        name: LiveRun(script, 1 + (place + int(name.split()[-1])) % 3, tmp_path / f"run{place}")
        for place, (name, script) in enumerate(scripts().items())
    }
    run_side_by_side(spark, list(runs.values()))
    found = {name: check(run) for name, run in runs.items()}
    wrong = [f"{name}, {runs[name].buckets} buckets: {said}{runs[name].script}" for name, said in found.items() if said]
    assert not wrong, "\n\n".join([f"{len(wrong)} of {len(runs)} differ", *wrong])


def check(run: Any) -> str:
    """Say how a run differs from the definitions, or from the same changes in process; empty where it does not."""
    if run.failure is not None:
        return f"failed: {run.failure}"
    case = run.script.case
    if run.kept.rows != [g.row for g in Oracle(case.rows, case.first, case.changes).given_out()]:
        return "other rows, or in another order"
    folder = run.folder / "in process"
    folder.mkdir()
    return apart(run.records(), run_engine(case, folder)[1].changes)


def apart(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> str:
    """Say what records say differently, but for the clock; empty where nothing."""
    if len(found) != len(expected):
        return f"{len(found)} records, not {len(expected)}"
    out = []
    for n, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        names = [k for k in theirs if k not in CLOCKS and mine[k] != theirs[k]]
        out += [f"change {n + 1}: {k} is {mine[k]}, not {theirs[k]}" for k in names]
    return "; ".join(out)
