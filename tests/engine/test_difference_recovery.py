"""What a difference keeps durably: rows until their going has been told, and the migration under way."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from engine.test_bucket_recovery import MemoryStore

import midstream as ms
from midstream.migrate.request import MigrationRequest
from midstream.plan.plan import Plan
from midstream.spark.blobs import Rows, from_blob, to_blob
from midstream.spark.bucket import EVENT, RESULT, Bucket, BucketSpec, Packed

EMPTY = pa.table({"ts": pa.array([], pa.int64()), "k": pa.array([], pa.int64())})


def plan_of(sql: str) -> Plan:
    engine = ms.Engine()
    for name in "abc":
        engine.stream(name, EMPTY, time="ts")
    return engine.query(sql).plan


class Runner:
    """A bucket whose shared memory is lost between all micro-batches, or never."""

    def __init__(self, plan: Plan, folder: Path, lossy: bool, requests: tuple[MigrationRequest, ...] = ()) -> None:
        positions = {s.position for s in plan.query.sources}
        self.spec = BucketSpec(plan, dict.fromkeys(positions, 0), str(folder), False, True, 0, schedule=requests)
        self.store, self.folder, self.lossy = MemoryStore(), folder, lossy
        self.changes: list[tuple[int, int, int]] = []
        self.events: list[dict[str, object]] = []

    def batch(self, high: int, **rows: list[tuple[int, int]]) -> None:
        """Run a micro-batch of (time, k) by stream; all streams have seen `high`."""
        packed = Packed(high={s.position: high for s in self.spec.plan.query.sources})
        for rank, source in enumerate(self.spec.plan.query.sources):
            mine = rows.get(source.alias, [])
            if mine:
                times, keys = (np.array(column, np.int64) for column in zip(*mine, strict=True))
                packed.rows[rank] = [(0, to_blob(Rows.of(times, times, {"k": pa.array(keys)}).table))]
        if self.lossy:
            for file in (self.folder / "0").glob("*"):
                file.unlink()
        for kind, _, blob in Bucket(self.spec, 0, self.store).on_batch(packed):
            if kind == RESULT:
                table = from_blob(blob)
                self.changes += zip(*(table.column(n).to_pylist() for n in ("k", "_time", "_sign")), strict=True)
            elif kind == EVENT:
                self.events.append(json.loads(blob))

    def held(self, alias: str) -> int:
        rank = self.spec.plan.query.aliases.index(alias)
        return sum(from_blob(blob).num_rows for (r, _), blob in self.store.chunks.items() if r == rank)


@pytest.mark.parametrize("lossy", [False, True])
def test_what_expires_unseen_is_told_once_by_the_next_row(tmp_path: Path, lossy: bool) -> None:
    plan = plan_of("SELECT k FROM a [RANGE 10 MICROSECONDS] EXCEPT SELECT k FROM b [RANGE 5 MICROSECONDS]")
    runner = Runner(plan, tmp_path, lossy)
    runner.batch(4, a=[(1, 7), (2, 8)], b=[(3, 8)])
    assert runner.changes == [(7, 1, 1), (8, 2, 1), (8, 3, -1)]
    for high in (100, 200, 300):  # time passes, and no row comes
        runner.batch(high)
    assert len(runner.changes) == 3
    assert runner.held("a") == 2, "their going has not been told"
    runner.batch(402, a=[(400, 1)], b=[(401, 2)])
    assert runner.changes[3:] == [(8, 9, 1), (7, 12, -1), (8, 13, -1), (1, 400, 1)]
    runner.batch(500, b=[(450, 1)])
    assert runner.changes[7:] == [(1, 411, -1)]
    assert runner.held("a") == 0
    assert runner.held("b") == 1, "the last row seen stays: it says how far the difference has got"
    assert sum(bool(e["rebuilt"]) for e in runner.events) == (len(runner.events) - 1 if lossy else 0)


@pytest.mark.parametrize("lossy", [False, True])
def test_a_migration_under_way_is_told_to_its_end(tmp_path: Path, lossy: bool) -> None:
    plan = plan_of(" EXCEPT ".join(f"SELECT k FROM {name} [RANGE 10 MICROSECONDS]" for name in "abc"))
    runner = Runner(plan, tmp_path, lossy, (MigrationRequest("((a c) b)", at_us=5, identity="one"),))
    runner.batch(5, a=[(1, 7), (2, 8), (3, 9)])
    runner.batch(6, b=[(5, 7)])
    runner.batch(8, c=[(7, 8)])
    runner.batch(9)
    told = [(e["plan"], e["phase"], [(m["state"], m["states_incomplete"]) for m in e["migrations"]])
            for e in runner.events]  # fmt: skip
    moving = ("((a c) b)", "migrating (just-in-time)", [("running", 1)])
    assert told == [("((a b) c)", "steady", []), *[moving] * 3]
    runner.batch(31, a=[(30, 1)])
    runner.batch(41)
    last = next(m for e in reversed(runner.events) for m in e["migrations"])
    assert (last["identity"], last["state"], last["states_completed"]) == ("one", "finished", 1)
    assert runner.events[-1]["phase"] == "steady"
    assert sum(sign for _, _, sign in runner.changes) == 1
