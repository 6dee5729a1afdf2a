"""Rows that wait for a stream lie in the store in chunks, written and read a few times, until they are released."""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from engine.cluster import Cluster
from engine.memory_store import MemoryStore

import midstream as ms
from midstream.engine.bucket.store import WAITING, Key
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from seeds import seeds

ROWS = 10
QUERY = "SELECT a.v AS v, b.v AS w FROM a [RANGE 40 MILLISECONDS], b [RANGE 40 MILLISECONDS] WHERE a.k = b.k"
TABLE = {"ts": pa.array([], pa.int64()), "k": pa.array([], pa.int64()), "v": pa.array([], pa.int64())}
Times = dict[int, np.ndarray]
"""Times of the rows that a micro-batch brings, by the position of their stream."""


class Counted(MemoryStore):
    """A store that counts the rows that wait, as they are written and read."""

    written, read_back = 0, 0

    def write(self, key: Key, table: pa.Table) -> None:
        self.written += table.num_rows if key.kind == WAITING else 0
        super().write(key, table)

    def read(self, key: Key) -> pa.Table:
        table = super().read(key)
        self.read_back += table.num_rows if key.kind == WAITING else 0
        return table

    @property
    def waiting(self) -> int:
        return sum(key.kind == WAITING for key in self.tables)


def cluster_of(folder: Path, labels: tuple[int, ...] = (0,), **how: object) -> Cluster:
    engine = ms.Engine()
    for name in "ab":
        engine.stream(name, pa.table(TABLE), time="ts")
    cluster = Cluster([engine.query(QUERY).plan], folder, labels, **how).live()  # type: ignore[arg-type]
    cluster.stores = {label: Counted() for label in labels}
    return cluster


def bring(cluster: Cluster, times: Times) -> None:
    """Run a micro-batch; a row's key and value follow from its time."""

    def packed(place: int) -> Packed:
        brought = Packed()
        for position, mine in times.items():
            columns = {"k": pa.array(mine % 7), "v": pa.array(mine)}
            brought.high[position], brought.low[position] = int(mine.max()), int(mine.min())
            cluster.place(brought, place, 1, position, Rows(mine, np.arange(len(mine)), columns), columns)
        return brought

    cluster.batch(packed)


def batch_of(number: int) -> np.ndarray:
    return np.arange(number * ROWS, (number + 1) * ROWS) * 1000


def joined(upto: int) -> list[tuple[int, int]]:
    """Return what must come out of streams with a row each millisecond."""
    pairs = [(a, b) for a in range(upto) for b in range(upto) if abs(a - b) <= 40 and a * 1000 % 7 == b * 1000 % 7]
    return sorted((a * 1000, b * 1000) for a, b in pairs)


@pytest.mark.parametrize("seed", seeds(0, 16, quick=1))
def test_rows_that_wait_are_written_and_read_a_few_times_and_removed_when_released(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    labels = rnd.choice([(0,), (3, 5)])
    crashes = rnd.choice([0.0, 0.3])
    cluster = cluster_of(tmp_path, labels, rnd=rnd, crashes=crashes)
    batches, speaks = 60, {20, 21, 50, 59}
    behind = list[np.ndarray]()
    for number in range(batches):
        behind.append(batch_of(number))
        times = {0: batch_of(number)}
        if number in speaks:  # it brings all it has not brought yet, or a part
            part = behind if number > 20 else behind[:15]
            times[1], behind = np.concatenate(part), behind[len(part) :]
        bring(cluster, times)
        assert max(store.waiting for store in cluster.stores.values()) <= 2 * 32  # type: ignore[attr-defined]
    cluster.batch(lambda place: Packed(high={0: 2**61, 1: 2**61}))
    out = sorted((row["v"], row["w"]) for d in cluster.departures for row in d.rows.to_pylist())
    assert out == joined(batches * ROWS)
    for store in cluster.stores.values():
        assert isinstance(store, Counted)
        assert store.waiting == 0
        assert store.written <= 2 * 2 * batches * ROWS
        assert crashes or store.read_back <= 2 * 2 * batches * ROWS


def test_rows_that_wait_as_an_older_release_wrote_them_take_part(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    bring(cluster, {0: batch_of(0), 1: batch_of(0)[:4]})
    store = cluster.stores[0]
    head = json.loads(store.head or "")
    waiting = head["versions"]["1"]["waiting"]
    for alias, chunks in waiting.items():
        (chunk,) = chunks
        number, waiting[alias], *_ = chunk
        store.tables[Key(WAITING, 1, int(alias), 0)] = store.tables.pop(Key(WAITING, 1, int(alias), number))
    assert sum(waiting.values()) == ROWS - 3 + 1
    store.head = json.dumps({**head, "format": 3})
    bring(cluster, {0: batch_of(1), 1: batch_of(0)[4:]})
    cluster.batch(lambda place: Packed(high={0: 2**61, 1: 2**61}))
    out = sorted((row["v"], row["w"]) for d in cluster.departures for row in d.rows.to_pylist())
    assert out == [(a, b) for a, b in joined(2 * ROWS) if b < ROWS * 1000]
