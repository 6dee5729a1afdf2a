"""Columns of streams on Spark may have any name: quotes, backticks, dots, spaces."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms

pytestmark = pytest.mark.spark

NAMES = ["a`b", "a.b", "a b", 'a"b', "ä€😀", "``.`"]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_columns_with_any_name_go_through(tmp_path: Path, spark: Any) -> None:
    (tmp_path / "in").mkdir()
    columns = {name: [k, k + 1, k + 2, 0] for k, name in enumerate(NAMES)}
    rows = pa.table({"time`s": [0, 1, 2, 3], **columns})  # the last row waits for another one
    pq.write_table(rows, tmp_path / "in" / "1.parquet")
    frame = spark.readStream.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(str(tmp_path / "in"))
    engine = ms.Engine(spark)
    engine.stream("s", frame, time="time`s")
    query = engine.query(f"SELECT {', '.join(map(quoted, NAMES))} FROM s [ROWS 3] WHERE {quoted(NAMES[0])} > 0")
    seen: list[dict[str, Any]] = []
    for place, sink in (
        ("a", tmp_path / "out"),
        ("b", lambda found, number: seen.extend(row.asDict() for row in found.collect())),
    ):
        query.start(sink, tmp_path / "checkpoint" / place, buckets=1, trigger={"availableNow": True}).wait()
    found = pa.concat_tables(pq.read_table(file) for file in (tmp_path / "out").glob("*.parquet"))
    assert found.select(NAMES).to_pylist() == [{n: columns[n][k] for n in NAMES} for k in (1, 2)]
    assert [{n: row[n] for n in NAMES} for row in seen] == found.select(NAMES).to_pylist()
