"""Queries that hop by rows answer, after every n-th row, what plain SQL gives over the windows there."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine.test_hop_recovery import HopCluster, arrivals, in_process, rows_of, streams_of

from midstream.app.replay import replay
from midstream.engine.control.controls import MIGRATE
from midstream.engine.planning.plans import plan_hopping
from midstream.lang.sql import parse_query
from midstream.local.replay import prepare
from midstream.local.scenario import read_scenario
from midstream.migrate.request import MigrationRequest
from midstream.plan.plan import Plan
from oracle.counted_hops import CountedCase, counted, in_order, recompute
from oracle.hop_generate import KINDS, draw_case
from oracle.hop_queries import Row, times_of
from oracle.hop_recompute import plain
from oracle.test_hopping import draw_modes
from seeds import seeds

SHAPES = ("as-written", "push-down", "optimal")


def draw_counted(rnd: random.Random, kind: str) -> CountedCase:
    """Draw a case with some dozens of answers, in some of which many rows have one time."""
    case = draw_case(rnd, kind)
    total = sum(len(case.streams[name]) for name in {n for n, _ in case.windows})
    return counted(case, max(1, rnd.choice([total // 30, total // 10, total // 4, 7, total])))


def plan_of(case: CountedCase, asked: str | None) -> Plan:
    query = parse_query(case.sql, [s.schema for s in streams_of(case.streams)])
    assert query.hop_rows == case.hop_rows
    return plan_hopping(query, asked)


def draw_words(rnd: random.Random, case: CountedCase) -> str:
    root = plan_of(case, "as-written").query.root
    if rnd.random() < 0.5:
        return f"as-written modes={','.join(draw_modes(rnd, root, case.emit)) or 'auto'}"
    return f"{rnd.choice(SHAPES)} modes={rnd.choice(['auto', 'delta', 'complete'])}"


def answers(table: pa.Table, case: CountedCase) -> dict[tuple[int, int], Counter[Row]]:
    """Return what left, by how many rows there had been and the time of the last one."""
    names = [*case.names, *(["_sign"] if case.emit == "delta" else [])]
    counts: list[int] = table.column("_hop").to_pylist()
    assert counts == sorted(counts), case
    found: dict[tuple[int, int], Counter[Row]] = {}
    values = zip(*(table.column(n).to_pylist() for n in names), strict=True)
    for count, time_us, row in zip(counts, table.column("_time").to_pylist(), values, strict=True):
        found.setdefault((count, time_us), Counter())[plain(row)] += 1
    return found


def due(case: CountedCase) -> dict[tuple[int, int], Counter[Row]]:
    return {(count, time_us): rows for count, time_us, rows in recompute(case) if rows}


def draw_migrations(rnd: random.Random, case: CountedCase) -> list[MigrationRequest]:
    times = [t for t, *_ in in_order(case)] or [0]
    at = sorted(rnd.randint(min(times) - 1, max(times) + 1) for _ in range(rnd.choice([0, 1, 3])))
    return [MigrationRequest(draw_words(rnd, case), at_us=t, identity=str(k)) for k, t in enumerate(at)]


@pytest.mark.parametrize("seed", seeds(0, 48, quick=1))
def test_a_drawn_query_answers_after_every_nth_row(seed: int) -> None:
    rnd = random.Random(8_100_000 + seed)
    case = draw_counted(rnd, KINDS[seed % len(KINDS)])
    expected = due(case)
    for _ in range(3):
        plan = plan_of(case, draw_words(rnd, case))
        requests = draw_migrations(rnd, case)
        span = 1 + max((t for t, *_ in in_order(case)), default=0) - min((t for t, *_ in in_order(case)), default=0)
        width_us = max(rnd.choice([2**50, span // 2, span // 7]), span // 40, 1)
        table, report = in_process(plan, case.streams, width_us, 2, requests)
        assert answers(table, case) == expected, f"{plan} {requests}{case}"
        assert sum(b.hops for b in report.batches) == len(in_order(case)) // case.hop_rows
        assert {m["state"] for m in report.migrations} <= {"finished", "no-op", "not reached"}, report.migrations


@pytest.mark.parametrize("seed", seeds(0, 48, quick=1))
def test_disturbed_buckets_answer_after_every_nth_row(seed: int, tmp_path: Path) -> None:
    """Tasks that fail, run twice, lose their memory or their worker; rows that come late; migrations in between."""
    rnd = random.Random(8_200_000 + seed)
    case = draw_counted(rnd, KINDS[seed % len(KINDS)])
    plan = plan_of(case, draw_words(rnd, case))
    every = [t for name in {n for n, _ in case.windows} for t in times_of(case.streams[name])] or [0]
    waits_us = rnd.choice([0, case.hop_us])
    bounds = [*sorted(rnd.randint(min(every), max(every) + 1) for _ in range(rnd.choice([1, 4, 9]))), 2**60]
    cluster = HopCluster(plan, tmp_path, 3, rnd, 0.3 if seed % 4 else 0.0, None, (), waits_us)
    cluster.spec = replace(cluster.spec, run=replace(cluster.spec.run, planner=None))
    cluster.clock_us = max(every)
    assert len(cluster.labels) == 1, "rows of all streams are counted in one place"
    for number, batch in enumerate(arrivals(plan, case.streams, bounds, waits_us)):
        row = {"id": f"asked {number}", "do": MIGRATE, "migration": {"plan": draw_words(rnd, case)}}
        cluster.step(batch, [row] if rnd.random() < 0.5 else [])
    assert answers(cluster.output(), case) == due(case), f"{plan}{case}"


def test_rows_of_one_time_are_before_and_after_an_answer(tmp_path: Path) -> None:
    """Ten rows of one second in two streams: hops after 4 and 8 are of the same time."""
    streams = {
        "a": pa.table({"ts": [5] * 4 + [9], "v": [1, 2, 3, 4, 5]}),
        "b": pa.table({"ts": [5] * 6 + [8], "v": [10, 20, 30, 40, 50, 60, 70]}),
    }
    lines = ['sql = "SELECT v FROM a [RANGE 3 MICROSECONDS] UNION ALL SELECT v FROM b [ROWS 3] HOP BY 4 ROWS"']
    for name, table in streams.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        lines += [f"[streams.{name}]", f'path = "{name}.parquet"', 'time = "ts"']
    (tmp_path / "s.toml").write_text("\n".join(lines), encoding="utf-8")
    report, table = replay(prepare(read_scenario(tmp_path / "s.toml")))
    assert table is not None
    found: dict[tuple[int, int], list[int]] = {}
    for row in table.to_pylist():
        found.setdefault((row["_hop"], row["_time"]), []).append(row["v"])
    assert report.rows_in == 12
    assert found == {(4, 5): [1, 2, 3, 4], (8, 5): [1, 2, 3, 4, 20, 30, 40], (12, 9): [5, 50, 60, 70]}
    # 4 of time 5 with a range of 3 hold at 5; at 9 only rows after 6 do.


def test_a_row_that_is_read_twice_counts_once() -> None:
    streams = {"a": pa.table({"ts": [1, 1, 2, 3], "v": [1, 2, 3, 4]})}
    query = parse_query(
        "SELECT x.v, y.v AS w FROM a [ROWS 2] x, a [ROWS 1] y HOP BY 2 ROWS", [s.schema for s in streams_of(streams)]
    )
    table, _ = in_process(plan_hopping(query, None), streams, 1, 1, [])
    assert rows_of(table) == [(1, 2, 1, 1, 2), (2, 2, 1, 1, 2), (3, 4, 3, 1, 4), (4, 4, 3, 1, 4)]
