"""What a bucket remembers has the size of its windows: few chunks, few tables, whatever number of micro-batches."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from engine.memory_store import MemoryStore

from midstream.change.forget import KEPT, forget_settled
from midstream.change.request import ChangeRequest
from midstream.engine.bucket.bucket import Bucket
from midstream.engine.bucket.chunks import LARGEST_BYTES, OVERHEAD_BYTES, PART, HeldChunk, to_merge, total
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.control.controls import CHANGE, SNAPSHOT, ControlQueue
from midstream.engine.control.versions import KnownVersions
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import RunSpec
from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.model.stream import StreamSchema
from midstream.model.timing import Timing

COLUMNS = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
STREAMS = [StreamSchema(name, COLUMNS, "ts") for name in "ab"]
SECOND = 1_000_000


class Ticking:
    """A bucket put together anew for each micro-batch, as on Spark, with a row of each stream in each second."""

    def __init__(self, *queries: str) -> None:
        plans = tuple(make_plan(parse_query(query, STREAMS)) for query in queries)
        run = RunSpec(planner=None)
        self.spec = BucketSpec(KnownVersions(plans).plan_of, {0: Timing(), 1: Timing()}, False, (0,), run)
        self.plans, self.store, self.number = plans, MemoryStore(), 0
        self.out: list[tuple[int, ...]] = []

    def tick(self, controls: list[dict[str, object]] | None = None, rebuilt: bool = True) -> Bucket:
        rows, at_us = {}, self.number * SECOND
        for number, plan in enumerate(self.plans, 1):
            for rank, source in enumerate(plan.query.sources):
                names = plan.query.columns_of(source.alias)
                columns = {name: pa.array([at_us if name == "ts" else self.number % 3]) for name in names}
                rows[number, rank] = [(0, Rows(np.array([at_us]), np.zeros(1, np.int64), columns))]
        packed = Packed(rows, dict.fromkeys((0, 1), at_us), dict.fromkeys((0, 1), at_us), controls=controls or [])
        if rebuilt or not self.number:
            self.bucket = Bucket(self.spec, 0, self.store)
        output = self.bucket.on_batch(packed)
        for item in output.leaving:
            self.out += [tuple(row.values()) for row in item.results.rows.to_pylist()]
        self.number += 1
        return self.bucket

    @property
    def head(self) -> int:
        return len(self.store.head or "")


QUERIES = {
    "a sliding join": "SELECT a.k FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k AND a.ts = b.ts",
    "a window of rows": "SELECT a.k FROM a [ROWS 100000], b [ROWS 10] WHERE a.k = b.k AND a.ts = b.ts",
    "windows that slide": "SELECT k, COUNT(*) AS n, MEDIAN(ts) AS m FROM a [RANGE 1 DAY SLIDE 1 HOUR] GROUP BY k",
    "windows over a join": "SELECT MEDIAN(x) AS m FROM (SELECT a.k AS x FROM a [RANGE 1 DAY], b [RANGE 1 SECOND] "
    "WHERE a.ts = b.ts) [RANGE 1 DAY SLIDE 1 HOUR]",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_a_long_window_filled_by_tiny_micro_batches_has_a_small_head(name: str) -> None:
    ticking = Ticking(QUERIES[name])
    sizes = []
    for _ in range(900):
        ticking.tick(rebuilt=False)
        sizes.append((ticking.head, len(ticking.store.tables)))
    heads, tables = zip(*sizes, strict=True)
    assert max(heads[450:]) < 1.6 * max(heads[:450]) < 20_000
    assert max(tables) < 200


@pytest.mark.slow
def test_rows_go_when_they_have_left_their_window() -> None:
    ticking = Ticking("SELECT a.k FROM a [RANGE 100 SECONDS], b [RANGE 100 SECONDS] WHERE a.k = b.k AND a.ts = b.ts")
    for _ in range(500):
        ticking.tick(rebuilt=False)
    held = sum(table.num_rows for table in ticking.store.tables.values())
    assert 2 * 100 <= held <= 2 * 101 * (1 + 1 / PART) + 16


@pytest.mark.slow
def test_a_bucket_rebuilt_from_merged_chunks_answers_the_same() -> None:
    query = "SELECT a.k, b.ts FROM a [RANGE 100 SECONDS], b [ROWS 70] WHERE a.k = b.k AND a.ts < b.ts AND b.k = 1"
    kept, rebuilt = Ticking(query), Ticking(query)
    for n in range(330):
        kept.tick(rebuilt=False)
        rebuilt.tick(rebuilt=n % 40 == 39)
    assert kept.out == rebuilt.out
    assert kept.out


@pytest.mark.parametrize("seed", range(5))
def test_merging_chunks_costs_little_and_leaves_few(seed: int) -> None:
    """Whatever sizes come: each byte is written a few times, and there are few chunks beside the largest."""
    rnd = random.Random(seed)
    chunks: list[HeldChunk] = []
    came = written = 0
    for n in range(20_000):
        size = rnd.choice((1, 10, 100, rnd.randrange(1, 2000), LARGEST_BYTES if rnd.random() < 0.001 else 5))
        chunks.append(HeldChunk(n, size))
        came += size + OVERHEAD_BYTES
        written += size + OVERHEAD_BYTES
        while to_merge(chunks):
            merged = total(chunks[-8:])
            written += merged
            chunks[-8:] = [HeldChunk(n, merged - OVERHEAD_BYTES)]
    assert written < 7 * came
    assert len(chunks) < 150 + total(chunks) / LARGEST_BYTES * 10


@pytest.mark.slow
def test_control_rows_that_were_read_are_not_remembered_for_ever() -> None:
    ticking = Ticking("SELECT k FROM a")
    for n in range(400):
        row = {"id": f"{n:020d}-x", "do": SNAPSHOT}
        ticking.tick([row, {"id": f"{max(n - 1, 0):020d}-x", "do": SNAPSHOT}])
    assert ticking.head < 30_000
    assert len(ticking.bucket.state.controls) == 256


@pytest.mark.slow
def test_changes_that_are_long_over_are_forgotten() -> None:
    count = 3 * KEPT
    ticking = Ticking(*["SELECT k FROM a [ROWS 3]", "SELECT k FROM a [ROWS 2]"] * count)
    heads = []
    for n in range(2, 2 * count):
        change = ChangeRequest.of("", {"method": "immediate"}).to_dict()
        bucket = ticking.tick([{"id": f"{n:020d}-x", "do": CHANGE, "change": change, "version": n}])
        bucket = ticking.tick()
        heads.append(ticking.head)
        assert ticking.bucket.newest is not None
        assert ticking.bucket.newest.number == n
    assert max(heads[count:]) < 1.1 * max(heads[:count]) < 50_000
    assert len(bucket.control.changes) < 2 * KEPT
    forget_settled(bucket.control)


def test_control_rows_of_a_run_in_process_are_not_kept_for_ever(tmp_path: Path) -> None:
    queue = ControlQueue()
    for n in range(1000):
        plan = {"plan": {"n": n}, "version": 1 + n % 2} if n < 500 else {}
        queue.send(SNAPSHOT, **plan)
        assert len(queue.take()) == 1
    assert len(queue.to_plain()["rows"]) < 200
    assert queue.last_plan(1) == "00000499"
    assert queue.last_plan(2) == "00000500"
    assert queue.read("00000500") is not None
