"""The checkpoint of a run in process, as a user sees it: stop, go on, ask on the way, be refused, be killed."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms
from seeds import seeds

JOIN = """SELECT a.v AS x, b.v AS y, c.v AS z FROM a [RANGE 2 SECONDS], b [ROWS 9], c [RANGE 1 SECOND]
WHERE a.k = b.k AND b.k = c.k"""
GROUPS = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 2 SECONDS SLIDE 700 MILLISECONDS] GROUP BY k"
EXCEPT = "SELECT k FROM a [RANGE 2 SECONDS] EXCEPT SELECT k FROM b [ROWS 3]"
HOPS = "SELECT a.k, b.v FROM a [RANGE 2 SECONDS], b [ROWS 5] WHERE a.k = b.k HOP BY 1 SECOND EMIT DELTA"
OTHER = "SELECT a.v AS x, b.v AS y, a.k AS z FROM a [RANGE 1 SECOND], b [ROWS 4] WHERE a.k = b.k"
MORE = "SELECT a.v AS x, d.v AS most FROM a [RANGE 1 SECOND], d [ROWS 2] WHERE a.k = d.k"
SECONDS = 12

Act = Callable[[Any], Any]


def engine() -> ms.Engine:
    """Declare the streams anew, as another process does; some rows are late."""
    made = ms.Engine()
    for number, name in enumerate("abcd"):
        rng = np.random.default_rng(number)
        times = np.sort(rng.integers(0, SECONDS * 1_000_000, 240))
        times[rng.integers(60, 240, 12)] -= 900_000
        columns = {"ts": times, "k": rng.integers(0, 6, 240), "v": rng.integers(0, 50, 240)}
        made.stream(name, pa.table(columns), time="ts", lateness="300 ms")
    return made


def script(sql: str, rnd: random.Random) -> list[Act]:
    """Draw what is done with a run."""
    methods = ["immediate", "drain", "delayed-drain", "graceful-immediate", "graceful-drain"]
    asked: dict[str, list[Act]] = {
        JOIN: [
            lambda run, s=s: run.migrate("(a (b c))", s) for s in ("moving-state", "parallel-track", "hybrid")
        ],
        EXCEPT: [],
        HOPS: [lambda run: run.migrate("as-written modes=delta"), lambda run: run.migrate("as-written modes=complete")],
        GROUPS: [],
    }  # fmt: skip
    acts: list[Act] = []
    for at_us in sorted(rnd.sample(range(500_000, SECONDS * 1_000_000, 250_000), 5)):
        acts.append(lambda run, at_us=at_us: run.advance(at_us))
        if asked[sql] and rnd.random() < 0.6:
            acts.append(asked[sql].pop(0))
    if sql == JOIN:
        method = rnd.choice(methods)
        acts.append(lambda run: run.change(OTHER, method))
        acts.append(lambda run: run.advance(SECONDS * 1_000_000 - 200_000))
        acts.append(lambda run: run.change(MORE, "immediate", allow_schema_change=True))
    return [*acts, lambda run: run.finish()]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    tables = [pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]
    return pa.concat_tables(tables, promote_options="default").to_pylist() if tables else []


def without_nulls(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if v is not None} for row in rows]


def test_a_run_stays_where_it_began_wherever_its_process_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    for sink, checkpoint in (("out", "checkpoint"), ("out.parquet", None)):
        monkeypatch.chdir(tmp_path)
        run = engine().query(JOIN).start(sink, paused=True, checkpoint=checkpoint).advance(5_000_000)
        monkeypatch.chdir(tmp_path / "elsewhere")
        run.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "elsewhere", "out", "out.parquet"]
    assert not list((tmp_path / "elsewhere").iterdir())
    assert pq.read_table(tmp_path / "out").num_rows == pq.read_table(tmp_path / "out.parquet").num_rows > 0


@pytest.mark.parametrize("seed", seeds(0, 24, quick=1))
@pytest.mark.parametrize("sql", [JOIN, GROUPS, EXCEPT, HOPS], ids=["join", "groups", "except", "hops"])
def test_what_is_asked_on_the_way_outlasts_the_process(sql: str, seed: int, tmp_path: Path) -> None:
    how = {"batch": random.Random(seed).choice(["300 ms", "1 second"]), "buckets": 1 + seed % 3}
    whole = engine().query(sql).start(paused=True, **how)
    for act in script(sql, random.Random(seed)):
        act(whole)
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", **how}
    run = engine().query(sql).start(paused=True, **place)
    rnd = random.Random(seed + 1)
    for act in script(sql, random.Random(seed)):
        act(run)
        if rnd.random() < 0.6 and not run.ended:
            run._running.release() if rnd.random() < 0.5 else run.stop()  # the process is gone, or ends itself
            run = engine().query(sql).start(paused=True, **place)
    assert without_nulls(rows_of(tmp_path / "out")) == without_nulls(whole.table().to_pylist())
    got, expected = run.report, whole.report
    assert (got.rows_in, got.rows_out, got.late_by_stream) == (
        expected.rows_in,
        expected.rows_out,
        expected.late_by_stream,
    )
    assert [c["to_version"] for c in got.changes] == [c["to_version"] for c in expected.changes]
    assert [m["identity"] for m in got.migrations] == [m["identity"] for m in expected.migrations]
    assert expected.late > 0
    assert expected.rows_out > 50


def test_a_finished_run_says_so_and_starts_no_more(tmp_path: Path) -> None:
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    first = engine().query(JOIN).start(paused=True, **place)
    first.advance(5_000_000).migrate("(a (b c))")
    first.finish()
    files = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    again = engine().query(JOIN).start(**place)
    assert again.status() == first.status()
    assert again.status()["state"] == "ended"
    assert again.report.to_json() == first.report.to_json()
    assert str(again.plan) == "(a (b c))"
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == files
    with pytest.raises(ms.MidstreamError, match="has ended"):
        again.finish()


def test_the_plan_that_ran_goes_on(tmp_path: Path) -> None:
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "paused": True}
    run = engine().query(JOIN, plan="((a b) c)").start(**place)
    run.advance(5_000_000).migrate("(a (b c))", "moving-state")
    run.stop()
    with pytest.raises(ms.MidstreamError, match="was stopped; start it again with its checkpoint"):
        run.advance(6_000_000)
    again = engine().query(JOIN, plan="((b c) a)").start(**place)
    assert str(again.plan) == "(a (b c))"
    assert again.status()["rows_in"] == run.status()["rows_in"] > 0
    again.change(OTHER, "immediate")
    again.stop()
    later = engine().query(OTHER).start(**place)
    assert later.status()["version"] == 2
    later.finish()


def test_a_later_version_finds_the_aggregates_of_the_user(tmp_path: Path) -> None:
    sql = "SELECT k, {}(v) AS s FROM a [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k"

    def query() -> Any:
        made = engine().aggregate("spread", lambda v: max(v.to_pylist()) - min(v.to_pylist()), "BIGINT")
        return made.query(sql.format("SUM"))

    place: dict[str, Any] = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "paused": True}
    whole, run = query().start(paused=True), query().start(**place)
    for started in (whole, run):
        started.advance(5_000_000).change(sql.format("SPREAD"), "drain")
    run.stop()
    query().start(**place).finish()
    assert rows_of(tmp_path / "out") == whole.finish().table().to_pylist()


@pytest.mark.slow
def test_a_run_that_adapts_goes_on_with_the_plan_it_has_chosen(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    made = ms.Engine()
    for name in "ab":
        times = np.sort(rng.integers(0, 20_000_000, 800))
        made.stream(name, pa.table({"ts": times, "k": rng.integers(0, 5, 800)}), time="ts")
    sql = "SELECT a.k FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k HOP BY 500 MILLISECONDS EMIT DELTA"
    place: dict[str, Any] = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "adapt": "modes"}
    plans = []
    for second in range(3, 20, 3):
        run = made.query(sql, plan="as-written modes=complete").start(**place, paused=True)
        before = str(run.plan)
        run.advance(second * 1_000_000).stop()
        plans.append((before, str(run.plan)))
    assert plans[0][0] != plans[-1][1], "it has adapted"
    assert [after for _, after in plans[:-1]] == [before for before, _ in plans[1:]]
    made.query(sql).start(**place)
    expected = made.query(sql).start().table().to_pylist()
    assert sorted(map(str, rows_of(tmp_path / "out"))) == sorted(map(str, expected))


def test_only_what_is_needed_stays_in_the_checkpoint(tmp_path: Path) -> None:
    run = (
        engine()
        .query(HOPS)
        .start(sink=tmp_path / "out", checkpoint=tmp_path / "checkpoint", paused=True, batch="100 ms")
    )
    most = 0
    for second in range(1, SECONDS):
        run.advance(second * 1_000_000)
        most = max(most, len(list((tmp_path / "checkpoint").iterdir())))
    needed = json.loads((tmp_path / "checkpoint" / "commit.json").read_text())["files"]
    assert {file.name for file in (tmp_path / "checkpoint").glob("*.arrow")} == set(needed)
    assert most < 60, "files of windows that have passed are removed"


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (EXCEPT, {}, "belongs to another query; start with a new checkpoint"),
    (JOIN, {"buckets": 3}, "buckets = 2 and cannot go on with 3; start with buckets = 2"),
    (JOIN, {"batch": "2 seconds"}, r"\(microseconds: none, not 2000000\); start with the same batch, or without one"),
    (JOIN, {"framework": "stairs"}, "framework = 'tree', not 'stairs'"),
    (JOIN, {"sink": "elsewhere"}, "has its results in"),
    (JOIN, {"sink": None}, "give a folder as its sink"),
    (JOIN, {"sink": "out.parquet"}, "give a folder, not"),
    (JOIN, {"sink": print}, "give a folder as its sink"),
]


@pytest.mark.parametrize(("sql", "how", "why"), REFUSED)
def test_another_run_is_refused(sql: str, how: dict[str, Any], why: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    place: dict[str, Any] = {"sink": "out", "checkpoint": "checkpoint", "buckets": 2, "paused": True}
    engine().query(JOIN).start(**place).advance(3_000_000).stop()
    with pytest.raises(ms.MidstreamError, match=why):
        engine().query(sql).start(**{**place, **how})
    engine().query(JOIN).start(**place).finish()  # nothing is held or spoiled


def test_other_rows_are_refused(tmp_path: Path) -> None:
    place: dict[str, Any] = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "paused": True}
    table = pa.table({"ts": [1, 2, 3], "v": [1, 2, 3]})
    ms.Engine().stream("s", table, time="ts").query("SELECT v FROM s").start(**place).stop()
    with pytest.raises(ms.MidstreamError, match="over other recorded streams"):
        ms.Engine().stream("s", table.slice(1), time="ts").query("SELECT v FROM s").start(**place)


@pytest.mark.parametrize(
    ("found", "do"), [(99, "go on with the release that wrote it"), (0, "start with a new checkpoint")]
)
def test_another_format_is_refused(found: int, do: str, tmp_path: Path) -> None:
    place: dict[str, Any] = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "paused": True}
    engine().query(JOIN).start(**place).stop()
    file = tmp_path / "checkpoint" / "identity.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": found}))
    with pytest.raises(ms.MidstreamError, match=f"format {found}, .*{do}"):
        engine().query(JOIN).start(**place)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    place: dict[str, Any] = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "paused": True}
    run = engine().query(JOIN).start(**place)
    with pytest.raises(ms.MidstreamError, match="is in use: stop the run that goes on from it"):
        engine().query(JOIN).start(**place)
    run.stop()
    (tmp_path / "out" / "batch-00000001.parquet").touch()
    with pytest.raises(ms.MidstreamError, match="give an empty folder"):
        engine().query(JOIN).start(**{**place, "checkpoint": tmp_path / "new"})
    with pytest.raises(ms.MidstreamError, match="without a checkpoint cannot be resumed"):
        engine().query(JOIN).start(paused=True).stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "results pending:3",
        "state written:5",
        "commit.json pending:4",
        "committed:4",
        "results shown:3",
        "file removed:9",
    ],
)
def test_a_killed_process_is_resumed(point: str, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from local.test_checkpoint import JOIN, engine\n"
        "here = Path(sys.argv[1])\n"
        "engine().query(JOIN).start(sink=here / 'out', checkpoint=here / 'checkpoint', buckets=2, batch='1 second')"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    paths = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    found = []
    for deadly in (point, ""):
        environment = {**os.environ, "MIDSTREAM_FAILPOINT": deadly, "PYTHONPATH": paths}
        found.append(subprocess.run(command, env=environment, check=False).returncode)
    assert found == [-signal.SIGKILL, 0]
    assert rows_of(tmp_path / "out") == engine().query(JOIN).start().table().to_pylist()
