"""A sink function is called once per micro-batch, or once for each hop of it, and what it is called with is unique."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from midstream.engine.results.merger import Departure

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64()), ("_hop", pa.int64())])


class Frames:
    """A session whose DataFrames are tables."""

    @staticmethod
    def createDataFrame(table: pa.Table) -> list[dict[str, Any]]:
        return table.to_pylist()


def at_hop(hop_us: int | None, *keys: int) -> Departure:
    rows = pa.record_batch({"k": pa.array(keys, pa.int64()), "_hop": pa.array([hop_us] * len(keys), pa.int64())})
    return Departure(rows, hop_us)


def calls_of(departures: list[Departure], batches: int = 2) -> tuple[list[Any], list[Any]]:
    """Return what functions of two and of three parameters are called with in micro-batches that are the same."""
    from midstream.spark.sinks import FunctionSink  # PySpark is an extra; tests are collected without it

    two: list[Any] = []
    three: list[Any] = []
    for function in (
        lambda rows, batch: two.append((batch, [(row["_hop"], row["k"]) for row in rows])),
        lambda rows, batch, hop: three.append((batch, hop, [row["k"] for row in rows])),
    ):
        sink = FunctionSink(Frames(), function)  # type: ignore[arg-type]
        for batch in range(batches):
            sink.write(departures, SCHEMA, batch)
    return two, three


def test_several_hops_of_a_micro_batch_are_told_apart() -> None:
    two, three = calls_of([at_hop(10, 1, 2), at_hop(20), at_hop(30, 3)])
    assert two == [(batch, [(10, 1), (10, 2), (30, 3)]) for batch in (0, 1)]
    assert three == [(batch, *call) for batch in (0, 1) for call in ((10, [1, 2]), (20, []), (30, [3]))]


def test_versions_that_answer_one_hop_come_in_one_call() -> None:
    two, three = calls_of([at_hop(10, 1), at_hop(None, 7), at_hop(10, 2), at_hop(20, 3)], batches=1)
    assert two == [(0, [(10, 1), (None, 7), (10, 2), (20, 3)])]
    assert three == [(0, 10, [1, 2]), (0, None, [7]), (0, 20, [3])]


def test_a_micro_batch_without_a_hop_is_no_answer() -> None:
    assert calls_of([]) == ([], [])


def test_a_function_of_something_else_is_refused(tmp_path: Path) -> None:
    from midstream.model.errors import SinkError
    from midstream.spark.sinks import parameters_of

    for function in (lambda: None, lambda frame: None, lambda a, b, c, d: None):
        with pytest.raises(SinkError, match="takes"):
            parameters_of(function)


def test_nobody_sees_lines_before_what_they_come_of_would_outlast_a_power_cut(spark: Any) -> None:
    from midstream.spark.lines import SparkLines

    def kept() -> None:
        raise OSError("the disk is gone")

    frame = spark.createDataFrame([(0, 1, bytearray(b"{}"))], "bucket int, kind int, blob binary")
    lines = SparkLines(frame, kept)
    for see in (
        lines.collect,
        lambda: lines.written(lambda batches, part: batches),
        lambda: lines.results(SCHEMA, False),
    ):
        with pytest.raises(OSError, match="the disk is gone"):
            see()
