"""Every benchmark runs, at a size that takes a moment and still has several micro-batches."""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from midstream.app import bench
from midstream.local import calibrate

SMALL: dict[str, tuple[float, dict[str, dict[str, Any]]]] = {
    "join4": (2, {}),
    "join6": (2, {}),
    "skew": (2, {}),
    "strings": (2, {}),
    "theta": (2, {}),
    "window10x": (2, {}),
    "nexmark_text": (1, {"nexmark_text": {"ROWS_PER_SECOND": 300, "POOL": 80, "WARM_UP_S": 1}}),
    "jisc": (0.1, {"jisc": {"SETS": ((4, "uniform", 1.0, 2), (3, "even", 1.0, 1))}}),
    "hybmig": (12, {}),
    "general": (12, {"general": {"RATES": (0.4, 1.0)}}),
    "sites": (2, {"sites": {"COUNTS": (4,), "TURNS": 1, "TURN_US": 400_000, "HEAVY": 200.0}}),
    "drift": (12, {"drift": {"TURNS": 1, "STATIC": 1, "LOW": 20.0}}),
    "regret": (2, {"regret": {"DRIFTS": 1, "STATIC": 2}}),
    "noise": (10, {"noise": {"TURNS": 1, "RATE": 30.0}}),
    "change": (2, {"change": {"SIZES": (40,), "STUDY_TURNS": 1, "TURNS": 1, "WARM_UP_S": 2, "MEASURED_S": 2}}),
}
"""Seconds, and constants of its modules."""
ON_SPARK: dict[str, tuple[float, dict[str, dict[str, Any]]]] = {
    "hopping": (
        1,
        {
            "hopping": {
                "RATIOS": (0.1, 1.0), "ROWS": 400, "KEYS": 200, "TURNS": 1, "TOGETHER_ROWS": 400, "TOGETHER_KEYS": 200,
                "WINDOW": 4_000, "DOMAIN": 8_000, "HOPS": 2,
            }
        },
    ),
    "deploy": (16, {"deploy": {"WARM_S": 6, "RATE": 100}}),
    "peers": (1, {"peers": {"SYSTEMS": "midstream"}}),
    "spark_migration": (1, {"spark_migration": {"WINDOW_S": 10, "STEADY": 1, "LASTS": 4}}),
    "spark_window10x": (50, {}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def whole_machine() -> Iterator[None]:
    """Benchmarks keep the process to one core; the tests after them want them all."""
    cores, threads = os.sched_getaffinity(0), pa.cpu_count()
    yield
    os.sched_setaffinity(0, cores)
    pa.set_cpu_count(threads)


def check(
    name: str, seconds: float, constants: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(bench.folder().parent), *sys.path])
    monkeypatch.setattr(import_module("benchmarks.workload"), "ROWS_PER_SECOND", 60)
    for place, values in constants.items():
        module = import_module(f"benchmarks.{place}")
        for constant, value in values.items():
            if constant == "SYSTEMS":
                value = tuple(system for system in module.SYSTEMS if system.name == value)
            monkeypatch.setattr(module, constant, value)
    steps: list[tuple[int, int]] = []
    result = bench.run(name, seconds, 3, None, lambda done, whole: steps.append((done, whole)))
    assert steps
    assert steps[-1][0] == steps[-1][1], "it is done when it says so"
    assert result["rows_per_s"] > 0
    assert bench.summary(result).startswith(f"{name}: ")
    return result


@pytest.mark.slow
def test_the_queries_of_nexmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(bench.folder().parent), *sys.path])
    nexmark = import_module("benchmarks.nexmark_text")
    monkeypatch.setattr(nexmark, "POOL", 200)
    monkeypatch.setattr(nexmark, "ROWS_PER_SECOND", 1_000)
    rows, later = nexmark.Bids(1).seconds(2)
    bid = pa.table(rows["bid"].columns)
    found = {}
    for name, sql in nexmark.QUERIES.items():
        runtime = nexmark.DirectRun(nexmark.planned(sql))
        left = [r.rows for r in runtime.on_rows(rows)]
        if "HOP" in sql:  # the first hop is answered when time has reached it
            left = [r.rows for r in runtime.on_rows(later)]
        found[name] = pa.Table.from_batches(left).to_pylist()
    with duckdb.connect() as connection:
        connection.register("bid", bid)
        expected = {
            name: connection.sql(sql).to_arrow_table().to_pylist()
            for name, sql in {
                "q21": """SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0'
                    WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                    ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id FROM bid
                    WHERE regexp_matches(url, '(&|^)channel_id=([^&]*)')
                    OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
                "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
                    split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid""",
                "q18 by hops": """SELECT auction, bidder, price, channel, url, ts AS at, extra FROM bid
                    QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) = 1""",
            }.items()
        }
    columns = {name: list(rows[0]) for name, rows in expected.items()}
    given = {name: [{c: row[c] for c in cs} for row in found[name]] for name, cs in columns.items()}
    assert given["q21"] == expected["q21"]
    assert given["q22"] == expected["q22"]
    assert [row.items() for row in found["q22 by position"]] == [row.items() for row in found["q22"]]
    assert sorted(given["q18 by hops"], key=str) == sorted(expected["q18 by hops"], key=str)
    last = {(row["bidder"], row["auction"]): row for row in found["q18"]}
    assert sorted(({c: r[c] for c in columns["q18 by hops"]} for r in last.values()), key=str) == sorted(
        expected["q18 by hops"], key=str
    )


@pytest.mark.parametrize("name", ["join4", *(pytest.param(n, marks=pytest.mark.slow) for n in SMALL if n != "join4")])
def test_a_benchmark_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = check(name, *SMALL[name], monkeypatch)
    same = [v for v in result.get("verdicts", ()) if "same results" in v["requirement"]]
    assert all(v["holds"] for v in same), same
    if name in ("jisc", "hybmig", "general"):
        assert same


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", ON_SPARK)
def test_a_benchmark_runs_on_spark(name: str, monkeypatch: pytest.MonkeyPatch, spark: object) -> None:
    monkeypatch.setattr(calibrate, "RATIOS", (0.1, 1.0))
    monkeypatch.setattr(calibrate, "ROWS", (300,))
    result = check(name, *ON_SPARK[name], monkeypatch)
    if name == "peers":
        assert result["agree"]


def test_every_benchmark_is_run() -> None:
    assert {*SMALL, *ON_SPARK} == {*bench.available()}
