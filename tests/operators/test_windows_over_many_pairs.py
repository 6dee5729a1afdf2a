"""Aggregates over the results of a join take the memory of their answer, not that of all pairs."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.model.batch import Results
from midstream.operators.aggregate.stage import WindowStage
from midstream.operators.source import memory
from seeds import few_quick

ROWS = 1000
PAIRS = ROWS * ROWS
END_US = 7_200_000_000
A_PIECE = 4 * (1 << 16)
"""More results than one piece of them has."""
JOINED = "(a [RANGE 1 HOUR] JOIN b [RANGE 1 HOUR] ON a.k = b.k)"


def streams() -> ms.Engine:
    engine = ms.Engine()
    for name, first in (("a", 0), ("b", 1)):
        values = np.arange(ROWS)
        columns = {"ts": 2 * 1_000 * values + first, "k": np.zeros(ROWS, np.int64), "v": values, "f": values / 7}
        columns = {c: np.append(v, END_US if c == "ts" else -1 - first) for c, v in columns.items()}
        engine.stream(name, pa.table(columns), time="ts")
    return engine


class Seen:
    """What the windows of a run have been given, and have held."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.largest = self.held = self.all = 0
        take = WindowStage.on_results

        def watched(stage: WindowStage, results: Results, clock_us: int) -> Results:
            self.largest, self.all = max(self.largest, len(results)), self.all + len(results)
            out = take(stage, results, clock_us)
            self.held = max(self.held, stage.tuples)
            return out

        monkeypatch.setattr(WindowStage, "on_results", watched)


@pytest.mark.parametrize(
    ("asked", "answer"),
    few_quick(
        [
            ("COUNT(*)", PAIRS),
            ("SUM(a.v + b.v)", PAIRS * (ROWS - 1)),
            ("MAX(a.v * b.v)", (ROWS - 1) ** 2),
            ("COUNT(DISTINCT a.v)", ROWS),
            ("AVG(a.v)", (ROWS - 1) / 2),
            ("SUM(a.f)", float(ROWS * sum(map(Fraction, np.arange(ROWS) / 7)))),
            ("AVG(a.f)", float(ROWS * sum(map(Fraction, np.arange(ROWS) / 7))) / PAIRS),
        ]
    ),
)
def test_pairs_are_aggregated_as_they_are_found(asked: str, answer: float, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = f"SELECT {asked} AS n FROM {JOINED} [RANGE 1 HOUR SLIDE 1 HOUR]"
    query = streams().query(sql)
    query.start(lambda _: None)  # kernels are compiled before memory is measured
    seen = Seen(monkeypatch)
    found: list[pa.RecordBatch] = []
    tracemalloc.start()
    query.start(found.append)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [n for batch in found for n in batch.column("n").to_pylist()] == [answer]
    assert seen.all == PAIRS
    assert seen.largest < A_PIECE
    assert seen.held < 2 * A_PIECE
    assert peak < 700 * A_PIECE, f"{peak / PAIRS:.0f} bytes for each pair"


def test_windows_that_hold_every_result_say_so_before_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CHECKED_BYTES", 1 << 20)
    monkeypatch.setattr(memory, "free_bytes", lambda: 10 << 20)
    query = streams().query(f"SELECT MEDIAN(a.f + b.f) AS n FROM {JOINED} [RANGE 1 HOUR SLIDE 1 HOUR]")
    with pytest.raises(ms.MidstreamError, match="what a window holds would take"):
        query.start(lambda _: None)
