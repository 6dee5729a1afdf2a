"""Joins over sites on Spark: drawn queries, sites and rates give the rows of one machine, in the same order."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine.test_sites import draw_sites

import midstream as ms
from midstream.app.launch import launch
from midstream.app.replay import on_spark
from midstream.engine.results.schema import output_schema
from midstream.local.loop import Loop
from midstream.local.sinks import TableSink
from midstream.local.sites import SITES, place_plan
from midstream.local.sources import recorded_table
from midstream.spark.pipeline_file import read_pipeline
from oracle.migrations import plan_of
from oracle.recompute import plain
from oracle.test_sites import draw_small_case
from seeds import numbers

pytestmark = pytest.mark.spark


@pytest.mark.together
@pytest.mark.parametrize("seed", numbers(0, 30, 4))
def test_sites_give_what_one_machine_gives(seed: int, spark: object) -> None:
    rnd = random.Random(f"spark {seed}")
    case, expected = draw_small_case(rnd, 3, 5)
    plan, declared = place_plan(plan_of(case), draw_sites(rnd, case))
    streams = [recorded_table(name, table, "ts") for name, table in case.streams.items()]
    sink = TableSink(output_schema(plan))
    report = on_spark(Loop(plan, streams, 5_000_000, 1, framework=SITES, sites=declared), sink, None, None)
    schema = plan.query.schema.append(pa.field("_time", pa.int64()))
    assert plain(sink.table().select(schema.names), schema) == plain(expected, schema), case.sql
    assert report.rows_out == expected.num_rows


@pytest.mark.slow
def test_what_is_there_is_read_until_no_mail_waits(spark: object, tmp_path: Path) -> None:
    """A pipeline that reads what is there and ends: what is on its way between sites then arrives all the same."""
    rnd, here, tables = random.Random(3), ms.Engine(), dict[str, pa.Table]()
    streams = ""
    for name, site in (("a", "tokyo"), ("b", "london")):
        times = sorted(rnd.sample(range(3_000_000), 60))
        tables[name] = pa.table({"ts": times, "k": [rnd.randrange(9) for _ in times], "v": times})
        (tmp_path / name).mkdir()
        pq.write_table(tables[name], tmp_path / name / "rows.parquet")
        here.stream(name, tables[name], time="ts")
        kept = f'path = "{name}"\ntime = "ts"\nschema = "ts BIGINT, k BIGINT, v BIGINT"'
        streams += f'[streams.{name}]\nformat = "parquet"\n{kept}\nsite = "{site}"\n'
    run = 'framework = "sites"\nsite = "paris"\ntrigger = "available-now"'
    sql = "SELECT a.v AS x, b.v AS y FROM a [RANGE 1 SECONDS], b [RANGE 1 SECONDS] WHERE a.k = b.k"
    file = tmp_path / "pipeline.toml"
    sink = '[sink]\nformat = "folder"\npath = "out"'
    file.write_text(f'sql = "{sql}"\ncheckpoint = "cp"\n{streams}{sink}\n[run]\n{run}\n', encoding="utf-8")
    live = launch(read_pipeline(file), spark)
    assert live.wait(900)
    # The last rows wait for those of the other stream, which may come.
    end_us = min(table.column("ts").to_pylist()[-1] for table in tables.values())
    expected = [row for row in here.query(sql).start().table().to_pylist() if row["_time"] < end_us]
    found = ms.read(tmp_path / "out").to_pylist()
    assert [(row["x"], row["y"]) for row in found] == [(row["x"], row["y"]) for row in expected]
    assert not live.live.mail_waits()
