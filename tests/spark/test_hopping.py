"""Hopping queries on Spark: the answers in process, replayed and live, through migrations and restarts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine.test_hop_recovery import (
    THREE,
    in_process,
    plan_of,
    rows_of,
    streams_of,
    three_streams,
)
from spark.test_live import Files, wait_until

import midstream as ms
from midstream.engine.planning.adapt import parse_adaptation
from midstream.engine.planning.constants import VARIABLE, save_constants
from midstream.live.checkpoint import Checkpoint
from midstream.local.explain import explain_plan
from midstream.local.loop import Loop, output_schema
from midstream.local.sinks import TableSink
from midstream.local.sources import recorded_table
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import PlanError
from midstream.model.timing import Timing
from midstream.optimize.hopping.cost import Constants
from oracle.hop_queries import Row

pytestmark = pytest.mark.spark

MOST_BATCHES = 3


# Live ----------------------------------------------------------------------------------------------------------------

KEPT = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 2 SECONDS] GROUP BY k HOP BY 500 MILLISECONDS EMIT {}"
DIFFERENCE = """SELECT k FROM a [RANGE 200 MILLISECONDS] EXCEPT ALL SELECT k FROM b [ROWS 2 PARTITION BY k] c
HOP BY 100 MILLISECONDS EMIT {}"""
ONCE = {"availableNow": True}
OFTEN = {"processingTime": "200 milliseconds"}


def answers(files: Files, sql: str, lateness: str = "0 s") -> dict[int, list[Row]]:
    """Return what leaves in process over everything written, hop by hop."""
    engine = ms.Engine()
    for name, tables in files.written.items():
        engine.stream(name, pa.concat_tables(tables), time="ts", lateness=lateness)
    return by_hop(engine.query(sql).start().table())


def by_hop(*tables: pa.Table) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for table in tables:
        names = [n for n in table.column_names if n not in ("_time", "_version", "_hop")]
        for hop, row in zip(table.column("_hop").to_pylist(), rows_of(table.select(names)), strict=True):
            found.setdefault(hop, []).append(row)
    return found


def files_in(folder: Path) -> list[pa.Table]:
    return [pq.read_table(f) for f in sorted(folder.glob("*.parquet"))]


def test_every_sink_gets_what_it_can_take(tmp_path: Path, spark: Any) -> None:
    files = Files(tmp_path)
    hop_by_hop: list[tuple[int, int | None, list[Row]]] = []
    by_batch: list[tuple[int, list[Row]]] = []

    def take_hop(frame: Any, batch: int, hop: int | None) -> None:
        hop_by_hop.append((batch, hop, rows_of(frame.toArrow())))

    def take_batch(frame: Any, batch: int) -> None:
        by_batch.append((batch, rows_of(frame.toArrow())))

    sinks: dict[str, tuple[str, Any]] = {
        "folder": ("complete", tmp_path / "folder"),
        "json": ("complete", {"format": "json", "path": str(tmp_path / "json")}),
        "function": ("complete", take_hop),
        "changes": ("delta", tmp_path / "changes"),
        "table": ("delta", {"format": "table", "path": str(tmp_path / "table")}),
        "more json": ("delta", {"format": "json", "path": str(tmp_path / "more json")}),
        "changing": ("delta", take_batch),
    }
    for _ in range(3):
        files.grow()
    for name, (emit, sink) in sinks.items():
        query = files.engine(spark).query(KEPT.format(emit), name=name)
        query.start(sink, tmp_path / "checkpoints" / name, buckets=2, trigger=ONCE).wait()
    whole, changes = (answers(files, KEPT.format(emit)) for emit in ("complete", "delta"))
    hops = sorted(whole)
    assert len(hops) == 5
    (newest,) = files_in(tmp_path / "folder")
    assert by_hop(newest) == {hops[-1]: whole[hops[-1]]}
    assert newest.schema.metadata[b"midstream.hop"] == str(hops[-1]).encode()
    json = spark.read.json(str(tmp_path / "json")).select("k", "n", "total", "_hop")
    assert sorted(map(tuple, json.collect())) == [(*row, hops[-1]) for row in whole[hops[-1]]]
    assert [(hop, rows) for _, hop, rows in hop_by_hop] == [(h, [(*r, h, 1, h) for r in whole[h]]) for h in hops]
    assert [b for b, _, _ in hop_by_hop] == sorted(b for b, _, _ in hop_by_hop)
    assert by_hop(*files_in(tmp_path / "changes")) == changes
    assert by_hop(ms.read(tmp_path / "changes")) == changes
    (kept,) = files_in(tmp_path / "table")
    assert rows_of(kept) == whole[hops[-1]]
    more = spark.read.json(str(tmp_path / "more json")).select("k", "n", "total", "_sign", "_hop")
    assert sorted(map(tuple, more.collect())) == sorted((*row, hop) for hop in hops for row in changes[hop])
    assert [row for _, rows in by_batch for row in rows] == [
        (*r[:-1], h, 1, h, r[-1]) for h in hops for r in changes[h]
    ]
    assert len({batch for batch, _ in by_batch}) == len(by_batch), "once per micro-batch"


def test_sinks_that_cannot_take_it_are_refused(tmp_path: Path, spark: Any) -> None:
    files = Files(tmp_path)
    files.grow()
    engine = files.engine(spark)
    table = {"format": "table", "path": str(tmp_path / "table")}
    for sql, sink, why in (
        (KEPT.format("COMPLETE"), table, "a table is kept up to date by changes"),
        (KEPT.format("COMPLETE"), {"format": "kafka"}, "kafka only takes more rows"),
        (KEPT.format("DELTA"), {"format": "table"}, "a table needs a path"),
        (KEPT.format("DELTA"), 7, "a sink is a folder, a function"),
        (KEPT.format("DELTA"), lambda frame: None, "a sink function takes"),
        ("SELECT k FROM a", table, "HOP BY ... EMIT DELTA"),
    ):
        with pytest.raises(ms.MidstreamError, match=why):
            engine.query(sql).start(sink, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    query = engine.query(KEPT.format("DELTA"))
    query.start(table, tmp_path / "first", buckets=2, trigger=ONCE).wait()
    with pytest.raises(ms.MidstreamError, match="is kept up to date by another query"):
        query.start(table, tmp_path / "second", buckets=2, trigger=ONCE)


def test_a_running_query_goes_on_with_other_plans_modes_and_hops(tmp_path: Path, spark: Any) -> None:
    files = Files(tmp_path)
    files.grow(300_000)
    query = files.engine(spark, "300 ms").query(DIFFERENCE.format("DELTA"), name="hops", plan="as-written modes=delta")
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "buckets": 2}
    run = query.start(**place, trigger=OFTEN)
    with pytest.raises(PlanError, match="is no shape of a hopping plan"):
        run.migrate("((a b) c)")
    wait_until(lambda: run.status().get("rows_in", 0) > 0)
    asked = run.migrate("push-down modes=complete")
    grow_until(files, run, lambda: finished(run.events(), asked))
    assert run.wait_for_migration(asked)["state"] == "finished", run.migrations()
    assert ":CI" in str(run.running_plan())
    # As from another process.
    outside = Checkpoint.existing(tmp_path / "checkpoint")
    other = outside.controls.send("migrate", migration={"plan": "hop=50ms working=tuple modes=delta"})
    grow_until(files, run, lambda: finished(outside.events.all(), other))
    assert run.running_plan().query.hop_us == 50_000
    run.stop()
    files.grow(300_000)
    again = query.start(**place, trigger=OFTEN)
    assert again.running_plan().query.hop_us == 50_000, "the checkpoint knows the plan"
    wait_until(lambda: all_read(files, again))
    again.stop(drain=True)
    assert any(e["event"] == "rebuilt" for e in again.events()), "the second run began from the durable rows"
    told = [e for e in again.events() if e["event"] == "migration" and e["state"] == "finished"]
    streams = [recorded_table(n, pa.concat_tables(t), "ts", Timing(300_000)) for n, t in files.written.items()]
    requests = [
        MigrationRequest(plan, at_us=record["position_us"])
        for record, plan in zip(told, ("modes=complete", "hop=50ms"), strict=True)
    ]
    sink = TableSink(output_schema(query.plan))
    Loop(query.plan, streams, 10_000_000, 2, requests).run(sink)
    assert by_hop(*files_in(tmp_path / "out")) == by_hop(sink.table())
    assert again.status()["rows_out"] == sink.table().num_rows


def all_read(files: Files, run: Any) -> bool:
    """Tell whether a run has taken in everything that was written."""
    told = run.status()
    waiting = (told.get("last_batch") or {}).get("waiting", 0)
    return told.get("rows_in", 0) + waiting >= sum(t.num_rows for ts in files.written.values() for t in ts)


def grow_until(files: Files, run: Any, done: Callable[[], bool]) -> None:
    """Let time go on until something has happened: a migration takes effect after a hop that is answered later."""
    for _ in range(20):
        files.grow(300_000)
        wait_until(lambda: all_read(files, run) or done())
        if done():
            return
    pytest.fail("it never happened")


def finished(events: list[dict[str, Any]], identity: str | None = None) -> bool:
    told = [e for e in events if e["event"] == "migration" and e["state"] == "finished"]
    return any(identity in (None, e["identity"]) for e in told)


ADAPTED = """SELECT a.k, b.v, c.v AS w FROM a [RANGE 1 s], b [RANGE 1 s], b [RANGE 10 ms] c
WHERE a.k = b.k AND b.k = c.k HOP BY 100 ms EMIT DELTA"""


def test_a_running_query_adapts_its_plan(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Few rows: what every operator costs whatever it does would hide the rest.
    monkeypatch.setenv(VARIABLE, str(save_constants(Constants(fixed=1.0), {}, tmp_path / "costs.json")))
    files = Files(tmp_path)
    files.grow(300_000)
    query = files.engine(spark, "300 ms").query(ADAPTED, name="adapts", plan="as-written modes=delta")
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "buckets": 2, "trigger": OFTEN}
    run = query.start(**place, adapt="plan")
    grow_until(files, run, lambda: finished(run.events()))
    # What adapts by itself may do so again: the plan of the last micro-batch is the one to go on with.
    run.stop()
    plan = run.running_plan()
    assert plan.root != query.plan.root
    joins = [line for line in run.explain().splitlines() if "join on" in line]
    assert joins != [line for line in explain_plan(plan).splitlines() if "join on" in line], "sizes are those it has"
    files.grow(300_000)
    monkeypatch.setenv(VARIABLE, str(save_constants(Constants(insert=1e6), {}, tmp_path / "other.json")))
    again = query.start(**place)
    assert again.running_plan() == plan, "a new driver finds the plan itself, whatever it would choose now"
    wait_until(lambda: all_read(files, again))
    assert again.running_plan() == plan
    assert again.status()["plan"] == str(plan), "and so do the buckets, rebuilt from their rows"
    again.stop(drain=True)
    assert by_hop(*files_in(tmp_path / "out")) == answers(files, ADAPTED, "300 ms")


def test_a_rehearsal_adapts(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from midstream.spark.rehearse import rehearse

    monkeypatch.setenv(VARIABLE, str(save_constants(Constants(fixed=1.0), {}, tmp_path / "costs.json")))
    tables = three_streams(24)
    plan = plan_of(THREE, tables, "as-written modes=delta")
    requests = [
        MigrationRequest("same modes=complete", at_us=19_000_000, identity="1"),
        MigrationRequest("same modes=delta", at_us=99_000_000, identity="2"),
    ]
    adaptation = parse_adaptation("plan")
    sink = TableSink(output_schema(plan))
    loop = Loop(plan, streams_of(tables), 4_000_000, 2, requests, adaptation=adaptation)
    report = rehearse(spark, loop, loop.readers(None), sink)
    expected, _ = in_process(plan, tables, 4_000_000, 2, [])
    assert rows_of(sink.table()) == rows_of(expected)
    told = {r["identity"]: r for r in report.migrations}
    assert (told["1"]["state"], told["2"]["state"]) == ("finished", "not reached")
    assert told["1"]["position_us"] == 20_000_000
    adapted = [r for name, r in told.items() if name not in ("1", "2")]
    assert adapted[0]["state"] == "finished"
    assert "(join:DIDO a b)" not in adapted[0]["plan"]
    tree = adapted[0]["plan"].replace("DI", "CI").replace("DO", "CO")
    assert told["1"]["plan"].replace("CIDO", "CICO") == tree.replace("CIDO", "CICO"), "the tree that runs, other modes"


PIPELINE = """
sql = "SELECT k % 3 AS g, spread(v) AS s FROM a [RANGE 2 SECONDS] GROUP BY k % 3 HOP BY 1 SECOND EMIT DELTA"
checkpoint = "checkpoint"
[streams.a]
format = "parquet"
time = "ts"
schema = "ts BIGINT, k BIGINT, v BIGINT"
path = "in/a"
[sink]
format = "table"
path = "out"
[run]
buckets = 2
trigger = "available-now"
plan = "as-written modes=delta"
[aggregates.spread]
file = "own.py"
returns = "BIGINT"
"""


def test_a_pipeline_keeps_a_table(tmp_path: Path, spark: Any) -> None:
    from midstream.app.launch import launch
    from midstream.spark.pipeline_file import read_pipeline

    files = Files(tmp_path)
    (tmp_path / "own.py").write_text(
        "def spread(values):\n    return max(values.to_pylist()) - min(values.to_pylist())"
    )
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    files.grow()
    files.grow()
    launch(read_pipeline(tmp_path / "pipeline.toml"), spark).wait()
    rows = files.written["a"][0].to_pylist()
    spreads = {g: [r["v"] for r in rows if r["k"] % 3 == g] for g in range(3)}
    assert rows_of(files_in(tmp_path / "out")[0]) == [(g, max(v) - min(v)) for g, v in spreads.items()]
