"""Rows of pure theta joins are dealt out by what is in them: whatever order each bucket gets them in, none is lost."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engine.memory_store import MemoryStore

import midstream as ms
from midstream.engine.bucket.bucket import Bucket
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.control.controls import DRAIN
from midstream.engine.rows.routing import buckets_of
from midstream.live.pack import CONTROL, Packer, unpack
from midstream.model.timing import Timing
from midstream.plan.plan import Plan

SQL = "SELECT a.v AS va, b.v AS vb, a.s AS s FROM a [RANGE 2 SECONDS], b [RANGE 1 SECOND] WHERE a.v < b.v"
LABELS = (3, 5, 8)


@dataclass
class Line:
    """A packed line as a bucket gets it."""

    bucket: int
    kind: int
    version: int
    alias: int
    part: int
    high: int
    blob: bytes | None


BROADCAST = """SELECT a.v AS va, c.v AS vb, a.s AS s FROM a [RANGE 2 SECONDS], b [RANGE 1 SECOND],
    b c [ROWS 2 PARTITION BY s] WHERE a.s = b.s AND a.v < c.v"""


def streams(rng: np.random.Generator, rows: int, ties: bool = True) -> dict[str, pa.Table]:
    times = np.sort(rng.integers(0, 5_000_000, rows) if ties else rng.permutation(5_000_000)[:rows])
    text = pa.array([None if k % 7 == 0 else f"t{k % 5}" for k in rng.integers(0, 100, rows)])
    return {name: pa.table({"ts": times, "v": rng.integers(0, 50, rows), "s": text}) for name in "ab"}


def engine_of(tables: dict[str, pa.Table]) -> ms.Engine:
    engine = ms.Engine()
    for name, table in tables.items():
        engine.stream(name, table, time="ts")
    return engine


def run_shuffled(plan: Plan, tables: dict[str, pa.Table], rng: np.random.Generator) -> Counter[tuple[Any, ...]]:
    """Run each bucket on the rows of an attempt of its own, in another order; return what left."""
    out: Counter[tuple[Any, ...]] = Counter()
    spec = BucketSpec(lambda number: plan, {0: Timing(), 1: Timing()}, False, LABELS)
    for label in LABELS:
        lines = [Line(label, CONTROL, 0, 0, 0, 0, json.dumps({"id": "1", "do": DRAIN}).encode())]
        for position, (name, table) in enumerate(tables.items()):
            packer = Packer(lambda: [(1, plan)], name, position, "ts", LABELS, False)
            attempt = table.take(rng.permutation(table.num_rows))
            lines += [line for line in (Line(*packed) for packed in packer.lines(attempt, 0)) if line.bucket == label]
        for item in Bucket(spec, label, MemoryStore()).on_batch(unpack(lines, spec)).leaving:
            rows = item.results.rows
            out.update(zip(*(rows.column(n).to_pylist() for n in ("va", "vb", "s", "_time")), strict=True))
    return out


@pytest.mark.parametrize("seed", range(3))
def test_attempts_that_give_rows_in_another_order_lose_and_repeat_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = streams(rng, 60)
    query = engine_of(tables).query(SQL)
    assert query.plan.partitioning.by_row == "a"
    expected = query.start().table()
    wanted = Counter(zip(*(expected.column(n).to_pylist() for n in ("va", "vb", "s", "_time")), strict=True))
    assert len(wanted) > 300
    assert run_shuffled(query.plan, tables, rng) == wanted


@pytest.mark.parametrize("seed", range(3))
def test_windows_of_rows_that_every_bucket_has_take_any_order_but_of_rows_of_one_time(seed: int) -> None:
    """What is in a window of rows goes by time; only of rows of the same time it goes by the order they come in."""
    rng = np.random.default_rng(seed)
    tables = streams(rng, 60, ties=False)
    query = engine_of(tables).query(BROADCAST)
    assert query.plan.partitioning.broadcast == ("c",)
    expected = query.start().table()
    wanted = Counter(zip(*(expected.column(n).to_pylist() for n in ("va", "vb", "s", "_time")), strict=True))
    assert len(wanted) > 100
    assert run_shuffled(query.plan, tables, rng) == wanted


def test_rows_are_dealt_out_evenly() -> None:
    rng = np.random.default_rng(4)
    partitioning = engine_of(streams(rng, 60)).query(SQL).plan.partitioning
    times, v = rng.integers(0, 1_000, 40_000) * 1_000_000, pa.array(rng.integers(0, 100, 40_000))
    places = buckets_of(partitioning, "a", 4, times, {"v": v})
    assert places is not None
    assert np.bincount(places, minlength=4).min() > 9_000
