"""Drawn scripts of every kind on Spark: recomputed rows, in the order they have in process."""

import pytest
from engine.test_hop_recovery import rows_of

from midstream.app.replay import on_spark
from midstream.local.replay import in_process
from midstream.local.report import Report
from oracle.scripts import DIFFERENCE, GENERAL, HOPS, JOIN, KINDS, MIGRATIONS, OPTIMIZED, OWN, draw_script
from seeds import numbers

pytestmark = pytest.mark.spark

COUNTS = {
    JOIN: (120, 24), MIGRATIONS: (120, 24), DIFFERENCE: (40, 8), HOPS: (180, 36), GENERAL: (48, 8), OWN: (32, 4),
    OPTIMIZED: (32, 4),
}  # fmt: skip
"""Seeds of each kind, and how many of them are always there; of changes 32 and 4 for each method."""
DRAWN = [(kind, seed) for kind in KINDS for seed in numbers(0, *COUNTS.get(kind, (32, 4)))]


@pytest.mark.together
@pytest.mark.parametrize(("kind", "seed"), DRAWN)
def test_a_drawn_script_is_as_in_process(kind: str, seed: int, spark: object) -> None:
    script = draw_script(kind, seed)
    got, report = script.run(on_spark)
    script.check(got, report)
    expected, local = script.run(in_process)
    assert rows_of(got) == rows_of(expected), script.told
    assert got.schema == expected.schema
    assert report.rows_out == local.rows_out
    if not script.loop.versions:  # of streams that come or go with a version, hosts count other rows
        assert report.rows_in == local.rows_in
    assert sum(b.hops for b in report.batches) == sum(b.hops for b in local.batches), script.told
    assert asked_for(report) == asked_for(local)
    assert counted(report) == counted(local), script.told
    if kind != HOPS:
        return
    # In process another plan may be chosen for a hopping query: more is known of the rows there.
    where = [(r["identity"], r["position_us"], r["state"] == "not reached") for r in report.migrations]
    assert where == [(r["identity"], r["position_us"], r["state"] == "not reached") for r in local.migrations]


def asked_for(report: Report) -> list[str]:
    """Return the migrations that were asked for; what is decided while it runs depends on when micro-batches come."""
    decided = {d["identity"] for d in report.decisions}
    return sorted(m["identity"] for m in report.migrations if m["identity"] not in decided)


def counted(report: Report) -> list[list[object]]:
    """Return what the record of each change says, but for the clock."""
    return [[value for name, value in record.items() if not name.endswith("_ms")] for record in report.changes]


@pytest.mark.parametrize(
    ("kind", "seed"), [(JOIN, 120), (MIGRATIONS, 121), (DIFFERENCE, 40), (HOPS, 180), (HOPS, 183), ("drain/query", 32)]
)
def test_a_drawn_script_with_a_query_of_its_own(kind: str, seed: int, spark: object) -> None:
    test_a_drawn_script_is_as_in_process(kind, seed, spark)
