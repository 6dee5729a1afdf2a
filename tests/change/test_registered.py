"""Queries registered beforehand: listed, removed, changed to by number."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import midstream as ms
from midstream.app.cli import app
from midstream.app.engine import Run
from midstream.engine.control.controls import CHANGE
from midstream.live.checkpoint import Checkpoint
from midstream.live.repository import Catalog, write_catalog
from midstream.local.replay import prepare
from midstream.local.scenario import read_scenario
from midstream.model.errors import MidstreamError

ROWS = pa.table({"ts": list(range(100)), "v": [n % 7 for n in range(100)]})


def total(count: int) -> str:
    return f"SELECT SUM(v) AS total FROM s [ROWS {count} SLIDE 1]"


def started() -> Run:
    run = ms.Engine().stream("s", ROWS, time="ts").query(total(5)).start(paused=True)
    assert isinstance(run, Run)
    return run


def test_a_run_changes_to_registered_queries_and_back() -> None:
    run = started()
    assert (run.register(total(2)), run.register(total(3))) == (2, 3)
    assert [v["number"] for v in run.registered()] == [1, 2, 3]
    assert not run.changes()
    asked = started()
    for at, number, sql in ((20, 3, total(3)), (40, 2, total(2)), (60, 1, total(5))):
        run.advance(at).change(number, "drain")
        asked.advance(at).change(sql, "drain")
    assert run.finish().table() == asked.finish().table()
    assert [c["to_version"] for c in run.changes()] == [2, 3, 4]
    assert run.changes()[0]["sql"] == total(3)


def test_registered_queries_outlast_the_process(tmp_path: Path) -> None:
    def started_again() -> Run:
        query = ms.Engine().stream("s", ROWS, time="ts").query(total(5))
        run = query.start(tmp_path / "out", paused=True, checkpoint=tmp_path / "checkpoint")
        assert isinstance(run, Run)
        return run

    run = started_again()
    run.register(total(2))
    assert run.register(total(3)) == 3
    run.remove(2)
    run.stop()
    run = started_again()
    assert [(v["number"], v["sql"]) for v in run.registered()][1:] == [(3, total(3))]
    assert run.register(total(4)) == 4, "a number is not given twice"
    run.advance(40).change(3, "drain")
    run.stop()
    run = started_again()
    assert [v["number"] for v in run.registered()] == [1, 3, 4]
    run.finish()
    tables = [pq.read_table(file) for file in sorted((tmp_path / "out").glob("*.parquet"))]
    asked = started().advance(40)
    asked.change(total(3), "drain")
    assert pa.concat_tables(tables).to_pylist() == asked.finish().table().to_pylist()


def test_what_is_not_registered_is_refused() -> None:
    run = started()
    run.register(total(2))
    run.remove(2)
    assert run.register(total(3)) == 3, "a number is not given twice"
    with pytest.raises(MidstreamError, match="no registered query 2; there are 1, 3"):
        run.change(2)
    with pytest.raises(MidstreamError, match="query 1 is the one the run was started with"):
        run.remove(1)
    with pytest.raises(MidstreamError, match="stream 'nowhere'"):
        run.register("SELECT x FROM nowhere")
    assert set(run.finish().table().column("_version").to_pylist()) == {1}


def test_a_scenario_changes_by_number(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "s.parquet")
    (tmp_path / "wide.sql").write_text(total(9))
    lines = [f"sql = {json.dumps(total(5))}", f'versions = ["wide.sql", {json.dumps(total(2))}]']
    lines += ["[streams.s]", 'path = "s.parquet"', 'time = "ts"']
    for at, number in ((20, 2), (40, 3), (60, 1)):
        lines += ["[[at]]", f"time = {at}", f"change = {number}"]
    file = tmp_path / "scenario.toml"
    file.write_text("\n".join(lines))
    assert [r.sql for r in prepare(read_scenario(file)).scenario.schedule] == [total(9), total(2), total(5)]
    file.write_text("\n".join(lines).replace("change = 3", "change = 4"))
    with pytest.raises(MidstreamError, match=r"number 2 change: there is no registered query 4; there are 1, 2, 3"):
        read_scenario(file)


def test_the_commands(tmp_path: Path) -> None:
    plan = ms.Engine().stream("s", ROWS, time="ts").query(total(5)).plan
    checkpoint = Checkpoint(tmp_path)
    checkpoint.identify("q", plan, 1, (0,), ())
    write_catalog(checkpoint.versions, Catalog((plan.query.sources[0].stream,), ("s",), {}, plan))
    runner = CliRunner()

    def say(*words: str) -> str:
        result = runner.invoke(app, list(words))
        assert result.exit_code == 0, result.output + str(result.exception)
        return result.output

    assert "registered as query 2" in say("register", str(tmp_path), total(2))
    assert "registered as query 3" in say("register", str(tmp_path), total(3))
    assert say("registered", str(tmp_path)).splitlines()[1:] == [f"2: {total(2)}", f"3: {total(3)}"]
    assert not any(row["do"] == CHANGE for row in checkpoint.controls.rows())
    say("unregister", str(tmp_path), "2")
    assert "registered as query 4" in say("register", str(tmp_path), total(2))
    assert [line[0] for line in say("registered", str(tmp_path)).splitlines()] == ["1", "3", "4"]
