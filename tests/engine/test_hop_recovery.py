"""Buckets of hopping queries that fail, lose their memory and change their plan answer every hop as in process."""

import copy
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engine.cluster import Cluster

from midstream.engine.control.controls import DRAIN, MIGRATE
from midstream.engine.planning.adapt import parse_adaptation
from midstream.engine.planning.planner import Planner
from midstream.engine.planning.plans import plan_hopping
from midstream.engine.results.merger import Departure
from midstream.engine.results.schema import output_schema
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from midstream.lang.sql import parse_query
from midstream.live.control_log import ControlLog
from midstream.local.aggregates import user_aggregate
from midstream.local.explain import explain_plan
from midstream.local.loop import Loop
from midstream.local.report import Report
from midstream.local.sinks import TableSink
from midstream.local.sources import RecordedStream, recorded_table
from midstream.migrate.request import MigrationRequest
from midstream.optimize.hopping.estimate import Sizes
from midstream.plan.algebra import Join, operators
from midstream.plan.plan import Plan
from oracle.hop_generate import KINDS, draw_case
from oracle.hop_queries import HopCase, times_of
from oracle.hop_recompute import plain
from seeds import few_quick, seeds

SECOND = 1_000_000
Row = tuple[Any, ...]


def streams_of(tables: dict[str, pa.Table]) -> list[RecordedStream]:
    return [recorded_table(name, table, "ts") for name, table in tables.items()]


def plan_of(sql: str, tables: dict[str, pa.Table], asked: str | None = None, aggregates: Any = None) -> Plan:
    query = parse_query(sql, [s.schema for s in streams_of(tables)], aggregates or {})
    assert query.hop_us is not None, sql
    return plan_hopping(query, asked)


def draw_asked(rnd: random.Random, hop_us: int, hops: bool = False) -> str:
    """Draw what is asked of a plan, in words."""
    words = [rnd.choice(["as-written", "push-down", "optimal"]), f"modes={rnd.choice(['auto', 'delta', 'complete'])}"]
    words.append(f"working={rnd.choice(['window', 'tuple'])}")
    if hops and rnd.random() < 0.4:
        words.append(f"hop={max(1, hop_us * rnd.choice([1, 2, 3, 5]) // rnd.choice([1, 2]))}us")
    return " ".join(words)


def draw_requests(rnd: random.Random, case: HopCase) -> list[MigrationRequest]:
    times = [t for name in {n for n, _ in case.windows} for t in times_of(case.streams[name])] or [0]
    at = sorted(rnd.randint(min(times) - case.hop_us, max(times) + case.hop_us) for _ in range(rnd.choice([1, 2, 3])))
    return [MigrationRequest(draw_asked(rnd, case.hop_us, True), at_us=t, identity=str(k)) for k, t in enumerate(at)]


def in_process(
    plan: Plan, tables: dict[str, pa.Table], batch_us: int, buckets: int, requests: list[MigrationRequest]
) -> tuple[pa.Table, Report]:
    sink = TableSink(output_schema(plan))
    report = Loop(plan, streams_of(tables), batch_us, buckets, requests).run(sink)
    return sink.table(), report


def rows_of(table: pa.Table) -> list[Row]:
    return [plain(row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]


@dataclass
class Batch:
    """A micro-batch: rows of each alias with their arrival, and the time each stream has come to."""

    rows: dict[int, Rows]
    high: dict[int, int]


def arrivals(plan: Plan, tables: dict[str, pa.Table], bounds: list[int], waits_us: int) -> list[Batch]:
    """Cut the streams into micro-batches by arrival; rows arrive up to `waits_us` after their time."""
    batches = [Batch({}, {}) for _ in bounds]
    for rank, source in enumerate(plan.query.sources):
        table = tables[source.stream.name]
        times = np.array(times_of(table), np.int64)
        # Aliases of one stream must see its rows arrive alike, and rows of the same time arrive together.
        instants, instant = np.unique(times, return_inverse=True)
        delay = np.random.default_rng(source.position).integers(0, waits_us + 1, len(instants))[instant]
        batch_of = np.searchsorted(bounds, times + delay, side="right")
        columns = {n: table.column(n).combine_chunks() for n in plan.query.columns_of(source.alias)}
        rows = Rows(times, np.arange(len(times), dtype=np.int64), columns)
        for number, batch in enumerate(batches):
            batch.rows[rank] = rows.where(batch_of == number)
            batch.high[source.position] = bounds[number] if number + 1 < len(bounds) else 2**61
    return batches


class HopCluster(Cluster):
    """A cluster of a hopping query, with its planner and control log."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        buckets: int,
        rnd: random.Random,
        crashes: float,
        adapt: str | None = None,
        schedule: Sequence[MigrationRequest] = (),
        lateness_us: int = 0,
    ) -> None:
        labels = tuple(range(3, 3 + (1 if plan.partitioning.one_bucket else buckets)))
        super().__init__([plan], folder, labels, rnd, crashes, schedule, lateness_us, looks=4)
        self.log, self.adaptation = ControlLog(folder.with_name(f"{folder.name}-log")), parse_adaptation(adapt)
        self.planner = Planner(plan, self.log, self.adaptation)
        self.delivered: set[str] = set()
        self.clock_us: int | None = None

    @property
    def answers(self) -> list[Departure]:
        return self.departures

    def step(self, batch: Batch, controls: list[dict[str, Any]] | None = None) -> None:
        sent = [row for row in self.log.rows() if row["id"] not in self.delivered]
        self.delivered |= {row["id"] for row in sent}
        self.batch(lambda place: self.packed(place, batch, [*sent, *(controls or [])]))
        if not self.spec.schedule:
            reports = self.reports[-1]
            if self.rnd.random() < self.crashes:  # a driver that dies, and another one that knows the checkpoint
                self.planner.on_batch(copy.deepcopy(reports))
                self.planner = Planner(self.plan, self.log, self.adaptation)
            self.planner.on_batch(reports)

    def packed(self, place: int, batch: Batch, controls: list[dict[str, Any]]) -> Packed:
        packed = Packed(high=dict(batch.high), controls=controls, clock_us=self.clock_us)
        for rank, source in enumerate(self.plan.query.sources):
            rows = batch.rows.get(rank)
            if rows is not None and len(rows):
                low = int(rows.times.min())
                packed.low[source.position] = min(low, packed.low.get(source.position, low))
                self.place(packed, place, 1, rank, rows)
        return packed

    def output(self) -> pa.Table:
        return self.table(self.plan.query.output_schema)


def run_case(
    case: HopCase,
    plan: Plan,
    rnd: random.Random,
    folder: Path,
    requests: list[MigrationRequest],
    crashes: float,
    adapt: str | None = None,
    asked: float = 0.0,
) -> HopCluster:
    """Run a case; with `asked` a part of the micro-batches carries a control row with a migration in words."""
    read = {s.stream.name: s.position for s in plan.query.sources}
    times = {name: times_of(case.streams[name]) for name in read}
    every = sorted(t for ts in times.values() for t in ts) or [0]
    waits_us = rnd.choice([0, case.hop_us])
    bounds = [*sorted(rnd.randint(every[0], every[-1] + case.hop_us) for _ in range(rnd.choice([1, 4, 9]))), 2**60]
    cluster = HopCluster(plan, folder, case.buckets, rnd, crashes, adapt, requests, waits_us)
    if not requests:
        cluster.spec = replace(cluster.spec, run=replace(cluster.spec.run, planner=None))
    cluster.clock_us = every[-1]
    for number, batch in enumerate(arrivals(plan, case.streams, bounds, waits_us)):
        words = rnd.choice([draw_asked(rnd, case.hop_us), "same modes=complete", "same modes=delta"])
        row = {"id": f"asked {number}", "do": MIGRATE, "migration": {"plan": words}}
        cluster.step(batch, [row] if rnd.random() < asked else [])
    return cluster


@pytest.mark.parametrize("seed", seeds(0, 400, quick=2, kept=[77]))
def test_disturbed_buckets_answer_as_in_process(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(30_000 + seed)
    case = replace(draw_case(rnd, KINDS[seed % len(KINDS)]), buckets=rnd.choice([1, 2, 3]))
    plan = plan_of(case.sql, case.streams, draw_asked(rnd, case.hop_us))
    requests = draw_requests(rnd, case) if seed % 3 else []
    told = f"{plan} | {requests}{case}"
    cluster = run_case(case, plan, rnd, tmp_path, requests, 0.3 if seed % 4 else 0.0)
    expected, report = in_process(plan, case.streams, case.batch_us, case.buckets, requests)
    assert rows_of(cluster.output()) == rows_of(expected), told
    assert cluster.total("hops_passed") == sum(b.hops for b in report.batches), told
    assert cluster.total("rows_in") >= 0
    if seed % 4 == 0:
        assert cluster.rebuilt == 0
    assert cluster.late == 0


@pytest.mark.parametrize("seed", seeds(0, 200, quick=1, kept=[38]))
def test_plans_of_a_disturbed_driver_change_no_answer(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(80_000 + seed)
    case = replace(draw_case(rnd, KINDS[seed % len(KINDS)]), buckets=rnd.choice([1, 2, 3]))
    plan = plan_of(case.sql, case.streams, "as-written modes=delta")
    cluster = run_case(case, plan, rnd, tmp_path, [], 0.3 if seed % 4 else 0.0, rnd.choice(["plan", None]), 0.5)
    expected, _ = in_process(plan, case.streams, case.batch_us, case.buckets, [])
    assert rows_of(cluster.output()) == rows_of(expected), case
    for events in cluster.reports:
        assert len({e["plan"] for e in events}) == 1, "all buckets run the same plan"
        assert events[0]["plan"] == str(cluster.planner.plan_of(events[0]["row"]))
    told = [r for events in cluster.reports for r in events[0]["migrations"]]
    over = Counter(r["identity"] for r in told if r["state"] not in ("queued", "refused"))
    assert set(over.values()) <= {1}, "each takes effect once"


# By hand -------------------------------------------------------------------------------------------------------------


def ticking(seconds: int, keys: int = 7, per_second: int = 10) -> pa.Table:
    """Return a stream with a row at every tenth of a second."""
    count = seconds * per_second
    return pa.table({"ts": np.arange(count) * (SECOND // per_second), "k": np.arange(count) % keys})


def live(sql: str, tables: dict[str, pa.Table], folder: Path, buckets: int, **more: Any) -> HopCluster:
    adapt = more.pop("adapt", None)
    schedule = more.pop("schedule", ())
    cluster = HopCluster(plan_of(sql, tables, **more), folder, buckets, random.Random(1), 0.0, adapt, schedule)
    if schedule:
        cluster.spec = replace(cluster.spec, recorded=False)
    else:
        cluster.live()
    return cluster


def until(cluster: HopCluster, tables: dict[str, pa.Table], first_us: int, end_us: int) -> Batch:
    """Return the rows of a stretch of time, which have brought every stream to the last of them."""
    batch = Batch({}, {})
    for rank, source in enumerate(cluster.plan.query.sources):
        table = tables[source.stream.name]
        times = np.array(times_of(table), np.int64)
        mine = (times >= first_us) & (times < end_us)
        columns = {n: table.column(n).combine_chunks() for n in cluster.plan.query.columns_of(source.alias)}
        batch.rows[rank] = Rows(times, np.arange(len(times), dtype=np.int64), columns).where(mine)
        batch.high[source.position] = int(times[mine].max(initial=-(2**63)))
    return batch


@pytest.mark.slow
def test_durable_rows_go_when_no_window_needs_them(tmp_path: Path) -> None:
    tables = {name: ticking(60, per_second=200) for name in "abc"}
    sql = """SELECT a.k FROM a [RANGE 2 SECONDS], b [ROWS 50], c [ROWS 2 PARTITION BY k]
    WHERE a.k = b.k AND b.k = c.k HOP BY 1 SECOND"""
    cluster = live(sql, tables, tmp_path, 1)
    for second in range(60):
        cluster.step(until(cluster, tables, second * SECOND, (second + 1) * SECOND))
    held = {rank: cluster.held(rank) for rank in range(3)}
    assert held[0] <= 800, "two seconds, and what has come since the last hop"
    assert held[1] <= 600
    assert held[2] < 6000
    assert len({a.hop_us for a in cluster.answers}) == len(cluster.answers) == 59


@pytest.mark.parametrize("buckets", [1, 2])
def test_a_drain_answers_no_further_than_time_has_reached(buckets: int, tmp_path: Path) -> None:
    tables = {"a": ticking(10), "b": ticking(7)}
    sql = "SELECT k FROM a [RANGE 3 SECONDS] EXCEPT ALL SELECT k FROM b [RANGE 2 SECONDS] HOP BY 2 SECONDS EMIT DELTA"
    cluster = live(sql, tables, tmp_path, buckets)
    cluster.step(until(cluster, tables, 0, 10 * SECOND))
    assert [a.hop_us // SECOND for a in cluster.answers] == [2, 4, 6], "b has come to 6.9"
    cluster.step(Batch({}, {}), [{"id": "1", "do": DRAIN}])
    assert [a.hop_us // SECOND for a in cluster.answers] == [2, 4, 6, 8], "nothing is flushed at the end"
    expected, _ = in_process(cluster.plan, tables, SECOND, buckets, [])
    assert rows_of(cluster.output()) == rows_of(expected)
    cluster.step(until(cluster, tables, 9 * SECOND, 10 * SECOND))
    assert cluster.late == 10, "what was drained does not come twice"


@pytest.mark.parametrize("lost", [False, True])
def test_a_control_row_migrates_all_buckets_behind_the_next_hop(lost: bool, tmp_path: Path) -> None:
    tables = {"a": ticking(20), "b": ticking(20, keys=5)}
    sql = "SELECT a.k, COUNT(*) AS n FROM a [RANGE 5 SECONDS], b [ROWS 9 PARTITION BY k] WHERE a.k = b.k GROUP BY a.k"
    cluster = live(f"{sql} HOP BY 2 SECONDS EMIT DELTA", tables, tmp_path, 3, asked="modes=delta")
    asked = {
        3: [{"id": "1", "do": MIGRATE, "migration": {"plan": "modes=complete"}}],
        4: [{"id": "2", "do": MIGRATE, "migration": {"plan": "modes=some"}}, {"id": "3", "do": "snapshot"}],
        5: [{"id": "3", "do": "snapshot"}, {"id": "4", "do": MIGRATE, "migration": {"plan": "hop=3s modes=delta"}}],
    }
    for step in range(13):
        if lost:
            for file in tmp_path.glob("*/*/*"):
                file.unlink()
        cluster.step(until(cluster, tables, step * 1_500_000, (step + 1) * 1_500_000), asked.get(step, []))
    told = [{r["identity"]: r for r in events[0]["migrations"]} for events in cluster.reports]
    states = {(k, name): r["state"] for k, records in enumerate(told) for name, r in records.items()}
    early = {(3, "1"): "queued", (4, "1"): "finished", (4, "2"): "refused"}
    assert states == {**early, (5, "4"): "queued", (6, "4"): "finished"}
    assert told[4]["1"]["position_us"] == 6 * SECOND
    assert "'SOME' is no mode" in told[4]["2"]["reason"]
    assert told[6]["4"]["position_us"] == 10 * SECOND
    assert [c["id"] for c in cluster.reports[5][0]["controls"]] == ["4"], "a control row is obeyed once"
    assert [e[0]["row"] for e in cluster.reports[3:7]] == ["", "1-plan", "1-plan", "4-plan"]
    hops = [a.hop_us // SECOND for a in cluster.answers]
    assert hops == [2, 4, 6, 8, 10, 12, 15, 18]
    requests = [
        MigrationRequest("modes=complete", at_us=5 * SECOND, identity="1"),
        MigrationRequest("hop=3s modes=delta", at_us=9 * SECOND, identity="4"),
    ]
    expected, _ = in_process(cluster.plan, tables, SECOND, 3, requests)
    assert rows_of(cluster.output()) == rows_of(expected)
    assert cluster.rebuilt == (0 if not lost else 3 * 12)


THREE = """SELECT a.k, b.v, c.w FROM a [RANGE 8 SECONDS], b [RANGE 8 SECONDS], c [RANGE 8 SECONDS]
WHERE a.k = b.k AND b.k = c.k HOP BY 2 SECONDS EMIT DELTA"""


def three_streams(seconds: int) -> dict[str, pa.Table]:
    """Return streams whose join is cheapest when `c`, whose keys hardly meet those of `b`, is not joined last."""
    rng, count = np.random.default_rng(5), seconds * 40
    times = np.arange(count) * (SECOND // 40)
    keys = {"a": rng.integers(0, 5, count), "b": rng.integers(0, 5, count), "c": rng.integers(0, 400, count)}
    return {name: pa.table({"ts": times, "k": k, "v": k % 3, "w": k % 2}) for name, k in keys.items()}


@pytest.mark.parametrize("lost", few_quick([True, False]))
def test_buckets_go_on_with_the_tree_their_driver_has_chosen(lost: bool, tmp_path: Path) -> None:
    tables = three_streams(40)
    cluster = live(THREE, tables, tmp_path, 3, asked="as-written modes=delta", adapt="plan")
    for step in range(20):
        if lost:
            for file in tmp_path.glob("*/*/*"):
                file.unlink()
            cluster.planner = Planner(cluster.plan, cluster.log, cluster.adaptation) if step == 15 else cluster.planner
        cluster.step(until(cluster, tables, step * 2 * SECOND, (step + 1) * 2 * SECOND))
    records = [r for events in cluster.reports for r in events[0]["migrations"] if r["state"] == "finished"]
    assert records, "the driver saw that c is joined too late"
    plans = {e["plan"] for e in cluster.reports[-1]}
    assert plans == {str(cluster.planner.plan_of(cluster.reports[-1][0]["row"]))}
    assert "(join:DIDO a b)" not in plans.pop()
    anew = Planner(cluster.plan, cluster.log)
    row = cluster.reports[-1][0]["row"]
    assert anew.plan_of(row) == cluster.planner.plan_of(row), "the control log has the plan"
    expected, _ = in_process(cluster.plan, tables, SECOND, 3, [])
    assert rows_of(cluster.output()) == rows_of(expected)


@pytest.mark.slow
def test_a_migration_is_planned_from_what_the_buckets_tell(tmp_path: Path) -> None:
    tables = three_streams(30)
    cluster = live(THREE, tables, tmp_path, 2, asked="as-written modes=delta")
    asked = {
        1: [{"id": "1", "do": MIGRATE, "migration": {"plan": "optimal modes=delta"}}],
        10: [{"id": "2", "do": MIGRATE, "migration": {"plan": "optimal modes=delta"}}],
        11: [{"id": "3", "do": MIGRATE, "migration": {"plan": "same hop=1s"}}],
    }
    for step in range(15):
        cluster.step(until(cluster, tables, step * 2 * SECOND, (step + 1) * 2 * SECOND), asked.get(step, []))
    plans = {name: cluster.planner.plan_of(f"{name}-plan") for name in "123"}
    assert "(join:DIDO a b)" not in str(plans["2"]), "by then it is known that c hardly meets b"
    assert (str(plans["3"]), plans["3"].query.hop_us) == (str(plans["2"]), SECOND), "the tree on its way is the same"
    found = {r["identity"]: r for events in cluster.reports for r in events[0]["migrations"]}
    requests = [MigrationRequest("same hop=1s", at_us=found["3"]["position_us"])]
    expected, _ = in_process(cluster.plan, tables, SECOND, 2, requests)
    assert rows_of(cluster.output()) == rows_of(expected)


@pytest.mark.parametrize("lost", few_quick([True, False]))
@pytest.mark.parametrize("modes", few_quick(["delta", "complete"]))
def test_buckets_tell_what_their_operators_give(modes: str, lost: bool, tmp_path: Path) -> None:
    rng, count, keys = np.random.default_rng(4), 60 * 40, 400
    likely = 1 / np.arange(1, keys + 1)
    times = np.arange(count) * (SECOND // 40)
    tables = {n: pa.table({"ts": times, "k": rng.choice(keys, count, p=likely / likely.sum())}) for n in "ab"}
    sql = "SELECT a.k FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k HOP BY 1 SECOND EMIT DELTA"
    cluster = live(sql, tables, tmp_path, 3, asked=f"as-written modes={modes}")
    for step in range(30):
        if lost:
            for file in tmp_path.glob("*/*/*"):
                file.unlink()
        cluster.step(until(cluster, tables, step * 2 * SECOND, (step + 1) * 2 * SECOND))
    seen, hop_us = cluster.planner.statistics, cluster.answers[-1].hop_us
    assert seen is not None
    inside = (times >= hop_us - 20 * SECOND) & (times < hop_us)
    held = [np.bincount(tables[n].column("k").to_numpy()[inside], minlength=keys) for n in "ab"]
    pairs = int((held[0] * held[1]).sum())
    join = next(r for r in operators(cluster.plan.root) if isinstance(r, Join))
    assert Sizes(replace(seen, measured={}), SECOND).of(join).complete < pairs / 3, "as if all keys were alike"
    assert Sizes(seen, SECOND).of(join).complete == pytest.approx(pairs, rel=0.2)
    assert f"{Sizes(seen, SECOND).of(join).complete:,.0f}" in explain_plan(cluster.plan, statistics=seen)


def test_an_aggregate_of_the_user_survives(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    spread = user_aggregate("spread", lambda values: max(values.to_pylist()) - min(values.to_pylist()), "BIGINT")
    tables = {"a": ticking(10, keys=4)}
    sql = "SELECT k % 2 AS g, spread(k) AS s FROM a [RANGE 3 SECONDS] GROUP BY k % 2 HOP BY 2 SECONDS"
    request = MigrationRequest("modes=complete", at_us=3 * SECOND)
    cluster = live(sql, tables, tmp_path, 2, aggregates={"spread": spread}, schedule=[request])
    for step in range(10):
        cluster.step(until(cluster, tables, step * SECOND, (step + 1) * SECOND))
    expected, _ = in_process(cluster.plan, tables, SECOND, 2, [])
    assert rows_of(cluster.output()) == rows_of(expected)
    assert rows_of(cluster.output())[:2] == [(0, 2, 2 * SECOND, 1, 2 * SECOND), (1, 2, 2 * SECOND, 1, 2 * SECOND)]
    assert cluster.rebuilt == 0


def test_empty_stretches_are_passed_over(tmp_path: Path) -> None:
    day = 86_400 * SECOND
    table = pa.table({"ts": [0, 1_500_000, 400 * day], "k": [1, 2, 1]})
    cluster = live("SELECT k FROM a [RANGE 2 SECONDS] HOP BY 1 SECOND", {"a": table}, tmp_path, 2)
    cluster.step(until(cluster, {"a": table}, 0, 401 * day))
    assert [(a.hop_us // SECOND, a.rows.num_rows) for a in cluster.answers] == [(1, 1), (2, 2), (3, 1), (4, 0)]
    assert cluster.total("hops_passed") == 400 * 86_400
