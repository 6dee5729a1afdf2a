"""A bucket whose batches fail, whose shared memory is lost, stale or half-written, still gives each result once."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from engine.cluster import Cluster

import midstream as ms
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from midstream.live.mapped import MappedState
from midstream.migrate.request import MigrationRequest
from midstream.plan.plan import Plan
from oracle.generate import Case, draw_case
from oracle.migrations import STRATEGIES, check_output, draw_requests, with_times
from oracle.recompute import plain, recompute, times_of
from oracle.test_long_runs import draw_long_case
from seeds import seeds


def plan_of(case: Case) -> Plan:
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    return engine.query(case.sql, plan=case.tree, join=case.join).plan


def packed_batches(case: Case, plan: Plan, bounds: list[int], waits_us: int) -> list[Packed]:
    """Cut the streams into micro-batches by arrival; rows arrive up to `waits_us` after their time.

    Of the rows that arrive just when a micro-batch ends some are in it and some in the next one, which may still
    bring rows of that time.
    """
    rng = np.random.default_rng(len(bounds))
    batches = [Packed() for _ in bounds]
    for rank, source in enumerate(plan.query.sources):
        table = case.streams[source.stream.name]
        times = np.array(times_of(table), np.int64)
        # Aliases of one stream must see its rows arrive alike, and rows of the same time arrive in order.
        arrivals = np.random.default_rng(source.position)
        instants, first, instant, count = np.unique(times, return_index=True, return_inverse=True, return_counts=True)
        arrive = times + arrivals.choice([0, waits_us // 2, waits_us], len(instants))[instant]
        sooner = np.arange(len(times)) - first[instant] < arrivals.integers(0, count + 1)[instant]
        batch_of = np.where(sooner, np.searchsorted(bounds, arrive), np.searchsorted(bounds, arrive, side="right"))
        offsets = np.arange(len(times), dtype=np.int64)
        columns = {n: table.column(n).combine_chunks() for n in plan.query.columns_of(source.alias)}
        rows = Rows(times, offsets, columns)
        for number, packed in enumerate(batches):
            mine = rows.where(batch_of == number)
            packed.high[source.position] = bounds[number] if number + 1 < len(bounds) else 2**61
            if len(mine):
                cut = int(rng.integers(0, len(mine) + 1))
                parts = [mine.between(0, cut), mine.between(cut, len(mine))]
                packed.rows[1, rank] = [(k, part) for k, part in enumerate(parts) if len(part)]
    return batches


def run_disturbed(
    case: Case,
    plan: Plan,
    rnd: random.Random,
    folder: Path,
    disturbed: bool,
    requests: list[MigrationRequest] | None = None,
    framework: str = "tree",
) -> tuple[pa.Table, int]:
    waits_us = rnd.choice([0, 1_000_000])
    instants = sorted({t for table in case.streams.values() for t in times_of(table)})
    bounds = (
        [*sorted(rnd.choice(instants) + rnd.choice([0, waits_us]) for _ in range(8)), 2**60] if instants else [2**60]
    )
    crashes = 0.3 if disturbed else 0.0
    cluster = Cluster([plan], folder, (0,), rnd, crashes, requests or (), waits_us, framework)
    batches = packed_batches(case, plan, bounds, waits_us)
    for number, packed in enumerate(batches):
        cluster.batch(lambda place, packed=packed: packed, last=number + 1 == len(batches))  # type: ignore[misc]
    schema = plan.query.output_schema
    schema = schema.remove(schema.get_field_index("_version"))
    return cluster.table(schema), cluster.rebuilt


@pytest.mark.parametrize("seed", seeds(11, 40, quick=1))
def test_disturbed_batches_give_the_undisturbed_output(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    case = draw_case(rnd, most_streams=4) if seed % 4 else draw_long_case(rnd)
    plan = plan_of(case)
    expected = recompute(case)
    got, rebuilt = run_disturbed(case, plan, rnd, tmp_path, disturbed=seed % 3 > 0)
    assert plain(got, got.schema) == plain(expected, got.schema), f"{case.sql} | {case.tree}"
    if seed % 3 == 0:
        assert rebuilt == 0


@pytest.mark.parametrize("seed", seeds(0, 120, quick=1))
def test_a_crash_in_the_middle_of_a_migration_does_not_show(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(70_000 + seed)
    case = with_times(draw_case(rnd) if seed % 5 else draw_long_case(rnd))
    plan = plan_of(case)
    requests = draw_requests(rnd, case, plan, [STRATEGIES[seed % 4]] if seed % 2 else STRATEGIES)
    framework = rnd.choice(["tree", "tree", "tree", "stairs", "cacq"])
    got, _ = run_disturbed(case, plan, rnd, tmp_path, True, requests, framework)
    check_output(case, got, recompute(case), requests, f"{case.sql} | {case.tree} | {requests} | {framework}")


@pytest.mark.slow
def test_durable_rows_go_when_their_window_has_passed(tmp_path: Path) -> None:
    rows = pa.table({"ts": np.arange(0, 60_000_000, 10_000), "k": np.arange(6000) % 7})
    sql = "SELECT a.k FROM a [RANGE 2 s], b [ROWS 50], c [ROWS 2 PARTITION BY k] WHERE a.k = b.k AND b.k = c.k"
    engine = ms.Engine().stream("a", rows, time="ts").stream("b", rows, time="ts").stream("c", rows, time="ts")
    plan = engine.query(sql).plan
    cluster = Cluster([plan], tmp_path)
    for end in range(1_000_000, 61_000_000, 1_000_000):
        mine = rows.slice((end - 1_000_000) // 10_000, 100)
        times = mine.column("ts").to_numpy()
        given = Rows(times, times, {"k": mine.column("k").combine_chunks()})
        packed = Packed({(1, r): [(0, given)] for r in range(3)}, dict.fromkeys(range(3), end))
        cluster.batch(lambda place, packed=packed: packed)  # type: ignore[misc]
    held = {rank: cluster.held(rank) for rank in range(3)}
    assert held[0] <= 400
    assert held[1] <= 200
    assert held[2] < 6000


def test_a_stamp_of_another_version_is_not_taken(tmp_path: Path) -> None:
    big = np.arange(100_000)
    with MappedState(tmp_path) as state:
        assert state.publish("one", b"about", [big, np.arange(3)])
    with MappedState(tmp_path) as state:
        assert state.take("two") is None
        assert state.take("one") is None, (
            "a stamp that was looked at is gone: whoever looked may have changed the arrays"
        )


def test_arrays_are_mapped_not_copied(tmp_path: Path) -> None:
    with MappedState(tmp_path) as state:
        state.publish("one", b"about", [np.arange(100_000)])
    with MappedState(tmp_path) as state:
        about, arrays = state.take("one")
        assert about == b"about"
        arrays[0][7] = -1
        before = sorted(p.name for p in tmp_path.glob("array-*"))
        state.publish("two", about, arrays)
        assert sorted(p.name for p in tmp_path.glob("array-*")) == before
    with MappedState(tmp_path) as state:
        assert state.take("two")[1][0][7] == -1


def test_two_attempts_do_not_share_arrays(tmp_path: Path) -> None:
    with MappedState(tmp_path) as first:
        first.publish("one", b"", [np.arange(100_000)])
        with MappedState(tmp_path) as second:
            assert second.take("one") is None
            assert not second.publish("other", b"", [np.arange(100_000)])
    with MappedState(tmp_path) as state:
        assert state.take("one") is not None


def test_a_missing_array_means_rebuilding(tmp_path: Path) -> None:
    with MappedState(tmp_path) as state:
        state.publish("one", b"", [np.arange(100_000)])
    next(tmp_path.glob("array-*")).unlink()
    with MappedState(tmp_path) as state:
        assert state.take("one") is None
