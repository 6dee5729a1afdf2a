"""Live changes from, to and between queries that hop, in buckets that crash and over streams that lag.

How far buckets go, and where versions begin and end, is the same in all of them, whatever rows each of them has: output
and every count of the record are as in process, and as defined.
"""

import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from engine.test_live_changes import CLOCKS, LiveCluster

from midstream.change.record import UNFINISHED
from oracle.campaign import rows_of
from oracle.changes import METHODS
from oracle.hop_changes import HopOracle, output_row
from oracle.live_scripts import draw_live_hops
from oracle.test_changes import difference
from oracle.test_hop_changes import Case, run_engine
from seeds import seeds


def check(seed: int, folder: Path, methods: Sequence[str] = ()) -> None:
    """Compare output with the definitions, and what records say with those of the same changes in process."""
    rnd = random.Random(seed)
    script = draw_live_hops(rnd, methods or [rnd.choice(METHODS) for _ in range(rnd.choice([2, 2, 3]))])
    labels, crashes = rnd.choice([(4,), (4, 7), (1, 2, 5)]), rnd.choice([0.0, 0.5])
    cluster = LiveCluster(script, folder, labels, rnd, crashes)
    cluster.goes_on = True
    case, told = script.case, f"{labels} {crashes} late by {cluster.late_by}{script}"
    assert isinstance(case, Case), "its queries may hop"
    try:
        merger = cluster.run()
    except BaseException as failure:
        failure.add_note(told)
        raise
    controls = [(kind, at_us) for kind, _, at_us in script.controls]
    given = HopOracle(case.rows, case.first, case.changes, controls).given_out()
    got, expected = rows_of([d.rows for d in cluster.departures]), [output_row(g, True, True) for g in given]
    if got != expected:
        pytest.fail(f"{difference(got, expected)}{told}")
    _, report = run_engine(replace(case, buckets=1), folder, controls)
    for n, (record, counted) in enumerate(zip(merger.control.records(), report.changes, strict=True)):
        found = asdict(record)
        # What waited for a drain that is not over has left with the first run, and nothing is held in the next one.
        left = ("rows_held",) if record.state == UNFINISHED else ()
        apart = {k: (found[k], v) for k, v in counted.items() if k not in (*CLOCKS, *left) and found[k] != v}
        assert not apart, f"change {n + 1}: {apart}{told}"


@pytest.mark.parametrize("seed", seeds(0, 180, quick=3, kept=[16, 79, 109]))
def test_a_live_change_of_hops_is_as_defined(seed: int, tmp_path: Path) -> None:
    check(1_300_000 + seed, tmp_path, [METHODS[seed % len(METHODS)]])


@pytest.mark.parametrize("seed", seeds(0, 360, quick=3, kept=[1, 10, 86, 108, 115, 140, 210, 221, 379, 440]))
def test_live_changes_of_hops_that_meet_are_as_defined(seed: int, tmp_path: Path) -> None:
    check(1_400_000 + seed, tmp_path)
