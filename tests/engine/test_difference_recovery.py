"""What a difference keeps durably: rows until their going has been told, and the migration under way."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from engine.cluster import Cluster

import midstream as ms
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from midstream.migrate.request import MigrationRequest
from midstream.plan.plan import Plan

EMPTY = pa.table({"ts": pa.array([], pa.int64()), "k": pa.array([], pa.int64())})


def plan_of(sql: str) -> Plan:
    engine = ms.Engine()
    for name in "abc":
        engine.stream(name, EMPTY, time="ts")
    return engine.query(sql).plan


class Runner:
    """A bucket whose shared memory is lost between all micro-batches, or never."""

    def __init__(self, plan: Plan, folder: Path, lossy: bool, requests: tuple[MigrationRequest, ...] = ()) -> None:
        self.cluster, self.plan, self.lossy = Cluster([plan], folder, schedule=requests), plan, lossy

    @property
    def changes(self) -> list[tuple[int, int, int]]:
        found = [row for d in self.cluster.departures for row in d.rows.to_pylist()]
        return [(row["k"], row["_time"], row["_sign"]) for row in found]

    @property
    def events(self) -> list[dict[str, object]]:
        return [report for (report,) in self.cluster.reports]

    def batch(self, high: int, **rows: list[tuple[int, int]]) -> None:
        """Run a micro-batch of (time, k) by stream; all streams have seen `high`."""
        packed = Packed(high={s.position: high for s in self.plan.query.sources})
        for rank, source in enumerate(self.plan.query.sources):
            mine = rows.get(source.alias, [])
            if mine:
                times, keys = (np.array(column, np.int64) for column in zip(*mine, strict=True))
                packed.rows[1, rank] = [(0, Rows(times, times, {"k": pa.array(keys)}))]
        if self.lossy:
            self.cluster.lose_memory()
        self.cluster.batch(lambda place: packed)

    def held(self, alias: str) -> int:
        return self.cluster.held(self.plan.query.aliases.index(alias))


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
    assert told == [moving] * 4, "it takes effect when time has come to its position"
    runner.batch(31, a=[(30, 1)])
    runner.batch(41)
    last = next(m for e in reversed(runner.events) for m in e["migrations"])
    assert (last["identity"], last["state"], last["states_completed"]) == ("one", "finished", 1)
    assert runner.events[-1]["phase"] == "steady"
    assert sum(sign for _, _, sign in runner.changes) == 1
