"""`midstream change` and `midstream control` without Spark: what they check, say, send and wait for."""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.change.record import ChangeRecord
from midstream.lang.sql import parse_query
from midstream.live.checkpoint import Checkpoint
from midstream.live.repository import Catalog, VersionFiles, write_catalog
from midstream.local.aggregates import load_aggregates
from midstream.local.replay import make_plan
from midstream.model.stream import StreamSchema
from midstream.spark.pipeline_file import read_pipeline

STREAMS = tuple(
    StreamSchema(name, pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())]), "ts") for name in "srt"
)
SUM_50, SUM_10 = (f"SELECT SUM(v) AS total FROM s [ROWS {n} SLIDE 1]" for n in (50, 10))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """The checkpoint of a sum over 50 rows that this process pretends to run; it reads `s` and `r`, not `t`."""
    held = Checkpoint(tmp_path / "cp")
    held.folder.mkdir()
    held.hold()
    (held.folder / "midstream.json").write_text('{"format": 1, "id": "0badcafe"}')
    write_catalog(held.versions, Catalog(STREAMS, ("s", "r"), {}, make_plan(parse_query(SUM_50, STREAMS))))
    tell(held)
    return held


def tell(held: Checkpoint, state: str = "running", **more: object) -> None:
    status = {"name": "sums", "state": state, "pid": os.getpid(), "plan": "s", "buckets": 1, "version": 1}
    status |= {"rows_in": 9, "rows_out": 3, "late": 0, "last_batch": None, "changes": [], "error": None}
    held.write_status(status | more)


def record_of(row: dict[str, Any], state: str = "finished", **more: Any) -> dict[str, Any]:
    """Return what the query tells of a change."""
    asked = row["change"]
    order = asked["order"] or "stream" if asked["method"] == "drain" else None
    told = ChangeRecord(
        row["id"], asked["sql"], asked["method"], order, row["version"] - 1, row["version"], state=state
    )
    told.position_us, told.started_us = 5_000_000, 5_000_000
    return {**told.to_dict(), **more}


def obey(held: Checkpoint, then: Callable[[dict[str, Any]], None]) -> threading.Thread:
    """Act as the running query: wait for a control row, then do what the query would."""

    def work() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if rows := held.controls.rows():
                then(rows[-1])
                return
            time.sleep(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_change_is_explained_sent_followed_and_told(checkpoint: Checkpoint, midstream, tmp_path: Path) -> None:
    file = tmp_path / "new.sql"
    file.write_text(SUM_10)

    def answer(row: dict[str, Any]) -> None:
        checkpoint.events.add({"event": "change", "id": row["id"], "batch": 1})
        time.sleep(0.3)
        checkpoint.events.add({"event": "change", "batch": 2, **record_of(row, "under way")})
        tell(checkpoint, changes=[record_of(row, "under way", old_results=39, new_results=1, rows_held=40)])
        time.sleep(0.3)
        checkpoint.events.add({"event": "change", "batch": 3, **record_of(row, loss=0, rows_held=40)})

    query = obey(checkpoint, answer)
    code, out, err = midstream("change", checkpoint.folder, file, "--order", "query", "--audit")
    query.join()
    assert code == 0
    lines = err.splitlines()
    assert lines[0].startswith("midstream: drain/query guarantees here: no loss, query order, no duplicates, progress")
    assert "ends (the drain takes 49 more rows of s)" in lines[0]
    assert lines[1].startswith("midstream: not guaranteed: stream order (results of the new query wait")
    assert lines[2:4] == [
        "midstream: the change is asked for",
        "midstream: the change is read, and takes effect after every row that has been read by now",
    ]
    assert lines[4].startswith("midstream: changing to version 2 by drain/query since 1970-01-01 00:00:05")
    assert len(lines) == 5
    for part in ("to version 2", "drain/query", "finished", "40"):
        assert part in out
    (row,) = checkpoint.controls.rows()
    assert (row["do"], row["version"]) == ("change", 2)
    assert {k: row["change"][k] for k in ("method", "order", "audit")} == {
        "method": "drain", "order": "query", "audit": True,
    }  # fmt: skip
    assert VersionFiles(checkpoint.versions).load(2, {}).sql == SUM_10


def test_without_waiting(checkpoint: Checkpoint, midstream) -> None:
    code, out, _ = midstream("change", checkpoint.folder, SUM_10, "--method", "immediate", "--no-wait")
    assert code == 0
    assert out.startswith("sums has been asked to change; its events report ")
    assert checkpoint.controls.rows()[0]["change"]["method"] == "immediate"
    assert checkpoint.controls.rows()[0]["change"]["audit"] is False


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([SUM_10, "--method", "gently"], ["method is 'gently'", "graceful-drain"]),
        ([SUM_10, "--order", "any"], ["order is 'any'", "query, stream"]),
        ([SUM_10, "--method", "immediate", "--order", "query"], ["order is for drain, not for immediate"]),
        ([SUM_10, "--join", "merge"], ["--join is 'merge'", "hash"]),
        ([SUM_10, "--plan", "(s r)"], ["r"]),
        (["none.sql"], ["there is no query file none.sql"]),
        (["SELECT SUM(w) AS total FROM s [ROWS 5 SLIDE 1]"], ["the new query: ", "'w'"]),
        (["SELECT SUM(v) AS total FROM x [ROWS 5 SLIDE 1]"], ["the new query: ", "'x'"]),
        (["SELECT SUM(v) AS total FROM t [ROWS 5 SLIDE 1]"], ["stream 't' is not read by this run", "s, r"]),
        (["SELECT COUNT(v) AS n FROM s [ROWS 5 SLIDE 1]"], ["column 'total' (BIGINT) is removed", "'n' (BIGINT)"]),
        (["SELECT AVG(v) AS total FROM s [ROWS 5 SLIDE 1]", "--allow-schema-change"], ["'total' is int64", "cast"]),
        (["SELECT v AS total FROM s [ROWS 5] EXCEPT SELECT v FROM r [ROWS 5]"], ["difference", "immediate"]),
    ],
)
def test_a_change_that_cannot_be_honoured_leaves_the_query_alone(
    words: list[str], parts: list[str], checkpoint: Checkpoint, midstream
) -> None:
    code, out, err = midstream("change", checkpoint.folder, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    for part in parts:
        assert part in err
    assert not checkpoint.controls.rows()
    assert not VersionFiles(checkpoint.versions).numbers()


def test_a_schema_change_is_told_before_it_happens(checkpoint: Checkpoint, midstream) -> None:
    new = "SELECT SUM(v) AS total, COUNT(*) AS n FROM s [ROWS 10 SLIDE 1]"
    code, _, err = midstream("change", checkpoint.folder, new, "--allow-schema-change", "--no-wait")
    assert code == 0
    assert "midstream: the output changes: column 'n' (BIGINT) is added\n" in err


def test_a_type_can_change_once_the_old_version_is_over(checkpoint: Checkpoint, midstream) -> None:
    without = "SELECT COUNT(*) AS n FROM s [ROWS 10 SLIDE 1]"
    assert midstream("change", checkpoint.folder, without, "--allow-schema-change", "--no-wait")[0] == 0
    real = "SELECT AVG(v) AS total FROM s [ROWS 10 SLIDE 1]"
    assert midstream("change", checkpoint.folder, real, "--allow-schema-change", "--no-wait")[0] == 2
    VersionFiles(checkpoint.versions).retire(1)
    assert midstream("change", checkpoint.folder, real, "--allow-schema-change", "--no-wait")[0] == 0


def test_behind_an_aborted_change_the_query_is_what_it_was(checkpoint: Checkpoint, midstream) -> None:
    other = "SELECT COUNT(*) AS n FROM s [ROWS 10 SLIDE 1]"
    assert midstream("change", checkpoint.folder, other, "--allow-schema-change", "--no-wait")[0] == 0
    assert midstream("change", checkpoint.folder, SUM_10, "--no-wait")[0] == 2  # from `n` to `total`
    (row,) = checkpoint.controls.rows()
    checkpoint.events.add({"event": "change", **record_of(row, "aborted")})
    assert midstream("change", checkpoint.folder, SUM_10, "--no-wait")[0] == 0


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("superseded", "sums does not go on as version 2 alone: the change was superseded"),
        ("aborted", "sums does not go on as version 2 alone: the change was aborted"),
    ],
)
def test_a_change_that_ends_otherwise(state: str, said: str, checkpoint: Checkpoint, midstream) -> None:
    query = obey(checkpoint, lambda row: checkpoint.events.add({"event": "change", **record_of(row, state)}))
    code, out, err = midstream("change", checkpoint.folder, SUM_10)
    query.join()
    assert code == 1
    assert state in out
    assert said in err


def test_a_query_that_ends_meanwhile(checkpoint: Checkpoint, midstream) -> None:
    query = obey(checkpoint, lambda row: tell(checkpoint, "stopped"))
    code, _, err = midstream("change", checkpoint.folder, SUM_10)
    query.join()
    assert code == 1
    assert "sums stopped before the change was over; it goes on when the query does" in err


def test_a_change_that_takes_longer(checkpoint: Checkpoint, midstream) -> None:
    code, _, err = midstream("change", checkpoint.folder, SUM_10, "--wait", "0.3")
    assert code == 1
    assert "has reported nothing of the change for 0.3 s" in err


CONTROLLED = {
    "fstart": "the newest version starts anew",
    "istop": "nothing leaves any more",
    "dstop": "only results that depend on an older row still leave",
    "abort": "the old one goes on",
}


@pytest.mark.parametrize("word", CONTROLLED)
def test_control_waits_until_it_is_in_effect(word: str, checkpoint: Checkpoint, midstream) -> None:
    def answer(row: dict[str, Any]) -> None:
        assert (row["do"], row["control"]) == ("control", word)
        checkpoint.events.add({"event": "control", "id": row["id"], "batch": 1})  # read, not yet in effect
        time.sleep(0.3)
        told = {"identity": row["id"], "control": word, "position_us": 5_000_000, "state": "in effect"}
        checkpoint.events.add({"event": "control", **told})

    query = obey(checkpoint, answer)
    code, out, _ = midstream("control", checkpoint.folder, word.upper())
    query.join()
    assert code == 0
    assert out.startswith(f"sums: {word} took effect at 1970-01-01 00:00:05")
    assert CONTROLLED[word] in out


def test_an_abort_that_is_refused(checkpoint: Checkpoint, midstream) -> None:
    def answer(row: dict[str, Any]) -> None:
        told = {"identity": row["id"], "control": "abort", "position_us": 5, "state": "refused", "reason": "too late"}
        checkpoint.events.add({"event": "control", **told})

    query = obey(checkpoint, answer)
    code, out, err = midstream("control", checkpoint.folder, "abort")
    query.join()
    assert (code, out, err) == (2, "", "midstream: sums goes on as it was: too late\n")


def test_there_is_no_such_control(checkpoint: Checkpoint, midstream) -> None:
    code, _, err = midstream("control", checkpoint.folder, "pause")
    assert (code, err) == (2, "midstream: control is 'pause'; it can be fstart, istop, dstop, abort\n")
    assert not checkpoint.controls.rows()


ASKING = [("change", SUM_10), ("control", "abort")]


@pytest.mark.parametrize(("command", "what"), ASKING)
def test_a_folder_that_is_no_checkpoint(command: str, what: str, tmp_path: Path, midstream) -> None:
    code, out, err = midstream(command, tmp_path / "none", what)
    assert (code, out, err) == (2, "", f"midstream: {tmp_path}/none is not the checkpoint of a query\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("command", "what"), ASKING)
def test_the_query_must_run_and_read_control(command: str, what: str, checkpoint: Checkpoint, midstream) -> None:
    tell(checkpoint, ends_by_itself=True)
    code, _, err = midstream(command, checkpoint.folder, what)
    assert (code, err) == (2, "midstream: query 'sums' ends by itself and reads no control while it runs\n")
    tell(checkpoint, "failed")
    code, _, err = midstream(command, checkpoint.folder, what)
    assert (code, err) == (2, f"midstream: the query of {checkpoint.folder} is not running: it has failed\n")
    assert not checkpoint.controls.rows()


def test_a_query_that_has_not_begun_to_run(checkpoint: Checkpoint, midstream) -> None:
    (checkpoint.versions / "catalog.json").unlink()
    code, _, err = midstream("change", checkpoint.folder, SUM_10)
    assert code == 2
    assert "has not begun to run; start it first" in err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("change", ["graceful-immediate", "--order", "--allow-schema-change", "--audit", "--no-wait", "_version"]),
        ("control", ["fstart", "istop", "dstop", "abort", "after every row"]),
    ],
)
def test_help(command: str, words: list[str], midstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = midstream(command, "--help")
    assert code == 0
    for word in words:
        assert word in out
    assert command in midstream("--help")[1]


def test_status_tells_the_version_and_changes_under_way(checkpoint: Checkpoint, midstream) -> None:
    row = {"id": "x", "version": 2, "change": {"sql": SUM_10, "method": "delayed-drain", "order": None}}
    tell(checkpoint, changes=[record_of(row, "under way", old_results=7, started_us=None)])
    out = midstream("status", checkpoint.folder)[1]
    told = " ".join(out.replace("│", " ").split())
    assert "version 1" in told
    assert "changing to version 2 (not started yet) by delayed-drain since 1970-01-01 00:00:05" in told
    assert "7 results of version 1" in told


def test_replay_tells_what_became_of_changes(tmp_path: Path, midstream) -> None:
    rows = pa.table({"ts": [n * 100_000 for n in range(300)], "v": list(range(300))})
    pq.write_table(rows, tmp_path / "s.parquet")
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        f'sql = "{SUM_50}"\n[streams.s]\npath = "s.parquet"\ntime = "ts"\n'
        f'[[at]]\ntime = 10000000\nchange = "{SUM_10}"\norder = "query"\n'
    )
    code, out, _ = midstream("replay", scenario)
    assert code == 0
    told = " ".join(out.split())
    for part in ("to version 2", "method drain/query", "state finished", "lost 0", "out of stream order 39"):
        assert part in told


# Pipelines -----------------------------------------------------------------------------------------------------------

PIPELINE = """
sql = "SELECT p90(v) AS v FROM s [ROWS 10 SLIDE 1]"
checkpoint = "cp"
[streams.s]
format = "rate"
time = "timestamp"
[streams.r]
format = "rate"
time = "timestamp"
[sink]
format = "console"
[run]
also_read = ["r"]
[aggregates.p90]
file = "own.py"
function = "ninety"
returns = "DOUBLE"
"""


def test_a_pipeline_names_further_streams_and_aggregates(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(PIPELINE)
    read = read_pipeline(file)
    assert read.also_read == ("r",)
    (own,) = read.aggregates
    assert (own.name, own.file, own.function, own.returns) == ("p90", tmp_path / "own.py", "ninety", "DOUBLE")


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('["r"]', '["q"]', ["[run] also_read names 'q'", "s, r"]),
        ('["r"]', '"r"', ["[run] also_read must be a list of streams", "'r'"]),
        ("returns", "retruns", ["[aggregates.p90]", "did you mean 'returns'?"]),
        ('file = "own.py"', "", ["[aggregates.p90] needs file"]),
        ("[aggregates.p90]", "[aggregates]", ["[aggregates.file]"]),
    ],
)
def test_a_bad_pipeline_is_one_sentence(old: str, new: str, parts: list[str], tmp_path: Path, midstream) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(PIPELINE.replace(old, new))
    code, out, err = midstream("run", file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    for part in parts:
        assert part in err


def test_an_aggregate_of_a_file_can_go_to_other_processes(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("HIGH = 0.9\n\ndef ninety(values):\n    return HIGH * max(values.to_pylist())\n")
    (tmp_path / "shop.toml").write_text(PIPELINE)
    (own,) = load_aggregates(read_pipeline(tmp_path / "shop.toml").aggregates).values()
    whole = pickle.dumps(own)
    script = "import pickle, sys, pyarrow; own = pickle.loads(sys.stdin.buffer.read()); "
    script += "assert pickle.loads(pickle.dumps(own)) == own; print(own.name, own.function(pyarrow.array([1, 10])))"
    told = subprocess.run([sys.executable, "-c", script], input=whole, capture_output=True, check=True)
    assert told.stdout.decode().split() == ["p90", "9.0"]


@pytest.mark.slow
def test_an_aggregate_of_a_file_can_be_a_class(tmp_path: Path) -> None:
    body = "        self.held = rows.to_pylist()\n        return 0.9 * max(self.held)\n"
    text = f"class Ninety:\n    def process(self, rows):\n{body}"
    (tmp_path / "own.py").write_text(text)
    (tmp_path / "shop.toml").write_text(PIPELINE.replace('"ninety"', '"Ninety"'))
    (own,) = load_aggregates(read_pipeline(tmp_path / "shop.toml").aggregates).values()
    script = "import pickle, sys, pyarrow; own = pickle.loads(sys.stdin.buffer.read()); "
    script += "print(own.function(pyarrow.array([1, 10])))"
    told = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(own), capture_output=True, check=True)
    assert told.stdout.decode().split() == ["9.0"]
