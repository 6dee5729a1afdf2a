"""Joins over sites on Spark: drawn queries, sites and rates give the rows of one machine, in the same order."""

import random

import pyarrow as pa
import pytest
from engine.test_sites import draw_sites

from midstream.app.replay import on_spark
from midstream.engine.results.schema import output_schema
from midstream.local.loop import Loop
from midstream.local.sinks import TableSink
from midstream.local.sites import SITES, place_plan
from midstream.local.sources import recorded_table
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
