"""Spark is a runtime, not a vocabulary: the same scripts and drawn queries give the same rows in the same order."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from test_cases import CASES, execute, read_case, squeeze

import midstream as ms
from midstream.local.loop import Loop, output_schema
from midstream.local.report import Report
from midstream.local.sinks import TableSink
from oracle.generate import Case
from oracle.recompute import plain, recompute

pytestmark = pytest.mark.spark


@pytest.mark.together
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_golden_case(path: Path, folder: Path, spark: object) -> None:
    case = read_case(path)
    _, output, late = execute(case, folder, runtime="spark", batch="5 s", buckets=2)
    assert squeeze(output) == squeeze(case.sections["output"])
    if "late" in case.sections:
        assert squeeze(late) == squeeze(case.sections["late"])


def on_spark(spark: object, case: Case, batch_us: int | None, buckets: int) -> tuple[Report, pa.Table]:
    from midstream.spark.rehearse import rehearse

    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    planned = engine.query(case.sql, plan=case.tree, join=case.join)
    sink = TableSink(output_schema(planned.plan))
    loop = Loop(planned.plan, planned.streams, batch_us, buckets)
    report = rehearse(spark, loop, loop.readers(None), sink)
    return report, sink.table()


DIFFERENT_KEYS = "SELECT a.v AS x, b.v AS y, c.v AS z FROM {} WHERE a.x = b.x AND b.y = c.y"
THETA = "SELECT a.v AS x, b.v AS y, c.v AS z FROM {} WHERE a.x < b.x - 2 AND b.y > c.y + 3"


@pytest.mark.together
@pytest.mark.parametrize(
    ("condition", "split", "batch_us", "batch"),
    [(DIFFERENT_KEYS, "hash a.x = b.x", 10_000_000, "10 SECONDS"), (THETA, "deal out a by row", None, "16384 rows")],
)
def test_joins_without_one_key_run_in_several_buckets(
    condition: str, split: str, batch_us: int | None, batch: str, spark: object
) -> None:
    rnd = random.Random(4)
    from pyarrow import table

    streams = {}
    for name in ("a", "b", "c"):
        times = sorted(rnd.randrange(20_000_000) for _ in range(60))
        values = {c: [rnd.randrange(6) for _ in times] for c in ("x", "y")}
        streams[name] = table({"ts": times, **values, "v": list(range(60))})
    windows = {name: ("range", 5_000_000, []) for name in streams}
    text = condition.split(" WHERE ")[1].split(" AND ")
    outputs = [("x", "a.v"), ("y", "b.v"), ("z", "c.v")]
    case = Case(streams, [(n, n) for n in streams], windows, text, outputs, "((a b) c)")
    expected = recompute(case)
    assert expected.num_rows > 50
    report, got = on_spark(spark, case, batch_us, 3)
    assert (report.buckets, report.batch) == (3, batch)
    assert report.partitioning.startswith(split)
    schema = got.schema.remove(got.schema.get_field_index("_version"))
    assert plain(got, schema) == plain(expected, schema)
