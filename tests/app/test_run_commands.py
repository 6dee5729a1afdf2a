"""The commands for queries on Spark without Spark: pipeline files, and checkpoints of other processes."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from app.pretended import BATCH, tell

from midstream.live.checkpoint import Checkpoint
from midstream.live.control_log import ControlLog
from midstream.model.errors import MidstreamError
from midstream.model.timing import Timing
from midstream.spark.offsets import planned_batch
from midstream.spark.pipeline_file import read_pipeline

STREAM = 'format = "rate"\ntime = "timestamp"\n'
GOOD = f'sql = "SELECT value FROM a"\ncheckpoint = "cp"\n[streams.a]\n{STREAM}[sink]\nformat = "console"\n[run]\n'

IN = 'format = "json"\npath = "in"\nschema = "value BIGINT, timestamp TIMESTAMP"'


def test_status_is_a_table_of_what_people_want_to_know(checkpoint: Checkpoint, midstream) -> None:
    code, out, _ = midstream("status", checkpoint.folder)
    assert code == 0
    for part in ("pairs: running", "(a b)", "1,200   100 rows/s", "345", "12 kB", "1970-01-01 00:00:01.5", "started"):
        assert part in out


def test_status_names_the_stream_that_holds_the_others_back(checkpoint: Checkpoint, midstream) -> None:
    held = {"stream": "b", "lag_us": 75_000_000, "silent_us": 70_000_000}
    tell(checkpoint, "running", ahead=7, last_batch={**BATCH, "held_by": held, "silent": ["c"]})
    out = " ".join(midstream("status", checkpoint.folder)[1].replace("│", " ").split())
    assert "3 for b, 1 min 15 s behind the others; its last row came 1 min 10 s ago in event time" in out
    assert "silent c" in out
    assert "too far ahead 7" in out


def test_status_says_what_was_decided_and_whether_it_paid(checkpoint: Checkpoint, midstream) -> None:
    predicted = {"before": 2000.0, "after": 500.0, "migration": 6000.0, "horizon_s": 40.0}
    made = {"when": 1, "from": "((a b) c)", "to": "(a (b c))", "strategy": "hybrid", "why": "it is cheaper"}
    measured = {"after": 512.0, "instead": 1900.0, "saved": 27_760.0, "seconds": 20.0}
    decisions = [{**made, "predicted": predicted, "measured": measured, "state": "taken"}]
    tell(checkpoint, "running", decisions=decisions)
    out = " ".join(midstream("status", checkpoint.folder)[1].replace("│", " ").split())
    assert "decided ((a b) c) -> (a (b c)) by hybrid: work expected to fall from 2,000 to 500 a second" in out
    assert "has paid so far: in 20 s it took 512 a second, 500 expected, the old plan 1,900; saved 27,760" in out


def test_status_as_json_is_the_status_with_lag_and_events(checkpoint: Checkpoint, midstream) -> None:
    told = json.loads(midstream("status", checkpoint.folder, "--json")[1])
    assert told["state"] == "running"
    assert told["rows_in"] == 1200
    assert told["lag_s"] > 1e9
    assert told["events"][0]["event"] == "started"


def test_a_query_whose_process_is_gone_has_died(checkpoint: Checkpoint, midstream) -> None:
    checkpoint.release()  # the process that has its number now is another one
    assert "pairs: died" in midstream("status", checkpoint.folder)[1]
    code, out, err = midstream("stop", checkpoint.folder)
    assert (code, out) == (2, "")
    assert "is not running: it died" in err
    assert not ControlLog(checkpoint.folder / "control").ids()  # nothing waits for its next run


@pytest.mark.slow
def test_a_query_on_another_machine_lives_as_long_as_it_is_heard_of(checkpoint: Checkpoint, midstream) -> None:
    checkpoint.release()  # a lock need not be seen on other machines
    tell(checkpoint, "running", pid=1, host="far-away")
    assert "pairs: running" in midstream("status", checkpoint.folder)[1]
    status = json.loads((checkpoint.folder / "status.json").read_text())
    (checkpoint.folder / "status.json").write_text(json.dumps({**status, "updated": time.time() - 3600}))
    assert "pairs: died" in midstream("status", checkpoint.folder)[1]
    checkpoint.beat()
    assert "pairs: running" in midstream("status", checkpoint.folder)[1]


@pytest.mark.parametrize("command", ["status", "stop", "snapshot"])
def test_a_folder_that_is_no_checkpoint(command: str, tmp_path: Path, midstream) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        code, out, err = midstream(command, folder)
        assert (code, out) == (2, "")
        assert err == f"midstream: {folder} is not the checkpoint of a query\n"
    assert not list(tmp_path.iterdir())


WILD = (None, True, -1, 10**400, float("nan"), "", "x", [], [1], [{}], {"x": 1})
SENSELESS = ("name", "state", "aliases", "changes", "rows_in_per_s", "last_batch", "updated")
SENSELESS_BATCH = ("released_us", "waiting", "state_bytes", "state_tuples", "wall_ms", "held_by", "silent", "phase")


@pytest.mark.slow
def test_a_status_without_sense_is_shown_or_named(checkpoint: Checkpoint, midstream) -> None:
    """Written by another release, or by hand: no command brings a traceback."""
    tell(checkpoint, "running", aliases=["a", "b"], changes=[])
    file = checkpoint.folder / "status.json"
    good = json.loads(file.read_text())
    spoiled = [{**good, key: value} for key in SENSELESS for value in WILD]
    spoiled += [{**good, "last_batch": {**BATCH, key: value}} for key in SENSELESS_BATCH for value in WILD]
    spoiled += [{k: v for k, v in good.items() if k != key} for key in good]
    spoiled += [{**good, "last_batch": {k: v for k, v in BATCH.items() if k != key}} for key in BATCH]
    named = 0
    for status in spoiled:
        file.write_text(json.dumps(status))
        for command in ("status",), ("status", "--json"), ("stop", "--wait", "0"), ("migrate", "(b a)", "--wait", "0"):
            code, _, err = midstream(command[0], checkpoint.folder, *command[1:])
            assert (code, err.count("\n")) in ((0, 0), (2, 1)), (status, command)
            named += "status.json is broken" in err
    assert named > 100


@pytest.mark.parametrize("key", ["at", "event", "state", "identity"])
def test_events_without_sense_are_left_out(checkpoint: Checkpoint, midstream, key: str) -> None:
    lines = [json.dumps({"at": 1.0, "event": "rebuilt", key: value}) for value in WILD]
    (checkpoint.folder / "events.jsonl").write_text("\n".join(['{"format": 1}', *lines]) + "\n")
    Checkpoint(checkpoint.folder).events.add({"event": "stopped"})
    code, out, err = midstream("status", checkpoint.folder)
    assert (code, err) == (0, "")
    assert "stopped" in out


@pytest.mark.parametrize("command", ["status", "stop", "snapshot"])
def test_what_cannot_be_read_is_one_sentence(command: str, checkpoint: Checkpoint, midstream) -> None:
    file = checkpoint.folder / "status.json"
    file.unlink()
    file.mkdir()
    assert midstream(command, checkpoint.folder) == (2, "", f"midstream: {file}: Is a directory\n")


@pytest.mark.parametrize("command", ["stop", "snapshot"])
@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_control_needs_a_running_query(command: str, state: str, checkpoint: Checkpoint, midstream) -> None:
    tell(checkpoint, state)
    code, _, err = midstream(command, checkpoint.folder)
    assert (code, err) == (2, f"midstream: the query of {checkpoint.folder} is not running: it has {state}\n")


def obey(checkpoint: Checkpoint, do: str, then) -> threading.Thread:
    """Act as the running query: wait for a control row, then do what the query would."""

    def work() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            rows = checkpoint.controls.rows()
            if rows:
                assert rows[0]["do"] == do
                then(rows[0])
                return
            time.sleep(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize(("flags", "do"), [([], "stop"), (["--drain"], "drain")])
def test_stop_writes_a_control_row_and_waits(flags: list[str], do: str, checkpoint: Checkpoint, midstream) -> None:
    query = obey(checkpoint, do, lambda row: tell(checkpoint, "stopped"))
    code, out, _ = midstream("stop", checkpoint.folder, *flags)
    query.join()
    assert code == 0
    assert out.startswith("pairs stopped, drained: " if flags else "pairs stopped: 1,200 rows in, 345 results out")


def test_stop_says_when_the_query_fails_instead(checkpoint: Checkpoint, midstream) -> None:
    query = obey(checkpoint, "stop", lambda row: tell(checkpoint, "failed", error="no room"))
    code, out, err = midstream("stop", checkpoint.folder)
    query.join()
    assert (code, out, err) == (1, "", "midstream: pairs failed before it stopped: no room\n")


def test_stop_says_when_it_has_waited_long_enough(checkpoint: Checkpoint, midstream) -> None:
    code, _, err = midstream("stop", checkpoint.folder, "--wait", "0.3")
    assert code == 1
    assert "has not stopped after 0.3 s" in err


def test_a_query_that_ends_by_itself_cannot_be_drained(checkpoint: Checkpoint, midstream) -> None:
    tell(checkpoint, "running", ends_by_itself=True)
    code, _, err = midstream("stop", checkpoint.folder, "--drain")
    assert code == 2
    assert "cannot be drained" in err
    assert not checkpoint.controls.rows()


def test_snapshot_prints_the_statistics_that_answer_it(checkpoint: Checkpoint, midstream) -> None:
    checkpoint.events.add({"event": "snapshot", "id": "of someone else", "batch": 3})
    checkpoint.events.add({"event": "statistics", "batch": 3})

    def answer(row: dict[str, str]) -> None:
        checkpoint.events.add({"event": "snapshot", "id": row["id"], "batch": 8})
        checkpoint.events.add({"event": "statistics", **BATCH, "batch": 8})

    query = obey(checkpoint, "snapshot", answer)
    code, out, _ = midstream("snapshot", checkpoint.folder)
    query.join()
    assert code == 0
    assert (json.loads(out)["batch"], json.loads(out)["state_tuples"]) == (8, 40)


@pytest.mark.slow
def test_these_commands_do_without_spark(checkpoint: Checkpoint) -> None:
    script = "import sys; from midstream.app.cli import app; app(sys.argv[1:], standalone_mode=False); "
    script += "sys.exit('pyspark' in sys.modules or 'pandas' in sys.modules)"
    subprocess.run([sys.executable, "-c", script, "status", str(checkpoint.folder)], check=True, capture_output=True)


def test_a_checkpoint_is_held_by_one_run(checkpoint: Checkpoint, midstream) -> None:
    code, _, err = midstream("run", write(checkpoint.folder.parent, GOOD))
    assert code == 2
    assert f"{checkpoint.folder} is in use" in err
    with pytest.raises(MidstreamError, match="is in use: its query is running already"):
        Checkpoint(checkpoint.folder).hold()
    checkpoint.release()
    Checkpoint(checkpoint.folder).hold()


def test_only_offsets_that_were_never_finished_are_cleared(checkpoint: Checkpoint) -> None:
    offsets = checkpoint.folder / "spark" / "offsets"
    assert planned_batch(checkpoint.spark) == -1  # nothing there yet
    offsets.mkdir(parents=True)
    (offsets / "left by someone else").touch()
    for half in (".0.5f3c.tmp", "..0.5f3c.tmp.crc"):
        (offsets / half).touch()
    assert planned_batch(checkpoint.spark) == -1
    assert [file.name for file in offsets.iterdir()] == ["left by someone else"]
    (offsets / "0").write_text('v1\n{"batchWatermarkMs":0}\n-')
    for name in (".0.crc", ".1.77aa.tmp"):
        (offsets / name).touch()
    assert planned_batch(checkpoint.spark) == 0  # a first micro-batch was written: Spark copes with the rest
    assert len(list(offsets.iterdir())) == 4


def write(folder: Path, text: str) -> Path:
    file = folder / "shop.toml"
    file.write_text(text)
    return file


def test_a_pipeline_is_read(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT a.k FROM a, b")
    text = """
query = "q.sql"
checkpoint = "state/cp"
[streams.a]
format = "kafka"
time = "ts"
lateness = "2 seconds"
idle = "30 seconds"
ahead = "1 hour"
[streams.a.options]
kafka.bootstrap.servers = "host:9092"
subscribe = "a"
failOnDataLoss = false
[streams.b]
format = "csv"
time = "ts"
schema = "ts TIMESTAMP, k BIGINT"
options = { path = "in/b", maxFilesPerTrigger = 3 }
[sink]
format = "folder"
path = "out"
[run]
buckets = 8
plan = "(a b)"
ordered = true
trigger = "1.5 seconds"
waiting = 5_000
cores = 4
[spark]
spark.driver.memory = "8g"
"""
    read = read_pipeline(write(tmp_path, text))
    assert (read.name, read.sql, read.checkpoint) == ("shop", "SELECT a.k FROM a, b", tmp_path / "state/cp")
    kafka = {"kafka.bootstrap.servers": "host:9092", "subscribe": "a", "failOnDataLoss": "false"}
    assert [s.options for s in read.streams] == [kafka, {"path": str(tmp_path / "in/b"), "maxFilesPerTrigger": "3"}]
    assert [s.timing for s in read.streams] == [Timing(2_000_000, 30_000_000, 3_600_000_000), Timing()]
    assert read.waiting == 5000
    assert read.sink == {"format": "folder", "path": str(tmp_path / "out")}
    assert (read.buckets, read.plan, read.join, read.ordered) == (8, "(a b)", "auto", True)
    assert (read.trigger, read.master) == ({"processingTime": "1500 milliseconds"}, "local[4, 4]")
    assert read.spark == {"spark.driver.memory": "8g"}


def test_what_a_pipeline_need_not_say(tmp_path: Path) -> None:
    read = read_pipeline(write(tmp_path, GOOD))
    assert (read.buckets, read.master, read.trigger) == (None, None, {"processingTime": "1000 milliseconds"})
    assert read_pipeline(write(tmp_path, GOOD + 'trigger = "available-now"')).trigger == {"availableNow": True}
    far = GOOD.replace('"console"', '"delta"\npath = "s3a://bucket/out"')
    assert read_pipeline(write(tmp_path, far)).sink["path"] == "s3a://bucket/out"


BAD = {
    "no query": (GOOD.replace("sql", "#"), ["give the query once"]),
    "unknown key": (GOOD.replace("checkpoint", "checkpiont"), ["'checkpiont'", "did you mean 'checkpoint'?"]),
    "no checkpoint": (GOOD.replace("checkpoint", "#"), ["the pipeline needs checkpoint"]),
    "far checkpoint": (GOOD.replace('"cp"', '"s3a://b/cp"'), ["checkpoint", "s3a://b/cp"]),
    "no streams": (GOOD.replace(f"[streams.a]\n{STREAM}", ""), ["[streams] is missing"]),
    "no format": (GOOD.replace('format = "rate"\n', ""), ["[streams.a] needs format"]),
    "no time": (GOOD.replace("time = ", "# "), ["[streams.a] needs time"]),
    "stream key": (GOOD.replace("time =", "tiem ="), ["[streams.a]", "'tiem'", "did you mean 'time'?"]),
    "no schema": (GOOD.replace('"rate"', '"json"\npath = "in"'), ["[streams.a] needs schema", "json"]),
    "no path": (GOOD.replace('"rate"', '"json"\nschema = "a INT"'), ["[streams.a] needs path"]),
    "path twice": (GOOD.replace('"rate"', '"rate"\npath = "x"\noptions = {path = "y"}'), ["gives path twice"]),
    "options": (GOOD.replace('"rate"', '"rate"\noptions = 5'), ["[streams.a.options] must be a table"]),
    "option": (GOOD.replace('"rate"', '"rate"\noptions = {x = [1]}'), ["[streams.a.options] x", "[1]"]),
    "lateness": (GOOD.replace('"rate"', '"rate"\nlateness = "soon"'), ["[streams.a] lateness", "'soon'"]),
    "idle": (GOOD.replace('"rate"', '"rate"\nidle = "-1 s"'), ["[streams.a] idle", "'-1 s'"]),
    "ahead": (GOOD.replace('"rate"', '"rate"\nahead = "0 s"'), ["[streams.a] ahead", "longer than nothing", "'0 s'"]),
    "waiting": (GOOD + 'waiting = "many"', ["[run] waiting", "'many'"]),
    "no sink": (GOOD.replace('[sink]\nformat = "console"\n', ""), ["[sink] is missing"]),
    "sink key": (GOOD.replace('"console"', '"console"\npaht = "x"'), ["[sink]", "did you mean 'path'?"]),
    "no folder": (GOOD.replace('"console"', '"folder"'), ["[sink] needs path"]),
    "far folder": (GOOD.replace('"console"', '"folder"\npath = "hdfs://x/y"'), ["[sink] path", "hdfs://x/y"]),
    "sink in the checkpoint's place": (
        GOOD.replace('"console"', '"folder"\npath = "x/../cp"'),
        ["[sink] path and checkpoint are one folder"],
    ),
    "stream from the sink": (
        GOOD.replace('"console"', '"json"\npath = "in"').replace('format = "rate"', IN),
        ["[streams.a] path", "[sink] path"],
    ),
    "stream from the checkpoint": (
        GOOD.replace('format = "rate"', IN.replace('"in"', '"cp"')),
        ["[streams.a] path and checkpoint are"],
    ),
    "run key": (GOOD + "bucket = 2", ["[run]", "did you mean 'buckets'?"]),
    "buckets": (GOOD + "buckets = 0", ["[run] buckets", "0"]),
    "ordered": (GOOD + 'ordered = "yes"', ["[run] ordered must be true or false", "'yes'"]),
    "trigger": (GOOD + 'trigger = "often"', ["[run] trigger", "'often'", "available-now"]),
    "join": (GOOD + 'join = "merge"', ["[run] join", "'merge'", "hash"]),
    "cores": (GOOD + "cores = 0", ["[run] cores", "0"]),
    "two masters": (GOOD + 'cores = 2\nmaster = "yarn"', ["cores and master"]),
    "not TOML": ("a = ", ["is not TOML"]),
}


def test_a_pipeline_says_where_streams_arrive(tmp_path: Path) -> None:
    text = GOOD.replace('time = "timestamp"\n', 'time = "timestamp"\nsite = "tokyo"\n')
    read = read_pipeline(write(tmp_path, text + 'framework = "sites"\nsite = "paris"\nupdate = "distributed"\n'))
    assert read.sites is not None
    assert (read.sites.sites, read.sites.query_site) == ({"a": "tokyo"}, "paris")
    assert read.sites.update == "distributed"
    assert read_pipeline(write(tmp_path, text)).sites is None
    for more, said in (
        ('framework = "sites"\nbuckets = 2\n', "buckets does not go with"),
        ('framework = "sites"\nadapt = "modes"\n', "adapt does not go with"),
        ('update = "off"\n', 'update is for framework = "sites"'),
        ('framework = "stairs"\n', "framework"),
    ):
        with pytest.raises(MidstreamError, match=said):
            read_pipeline(write(tmp_path, text + more))


@pytest.mark.parametrize("case", BAD)
def test_a_bad_pipeline_is_one_sentence(case: str, tmp_path: Path, midstream) -> None:
    text, parts = BAD[case]
    file = write(tmp_path, text)
    code, out, err = midstream("run", file)
    assert (code, out) == (2, "")
    assert err.startswith(f"midstream: pipeline {file}")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
    assert list(tmp_path.iterdir()) == [file]


def test_no_pipeline(tmp_path: Path, midstream) -> None:
    assert midstream("run", tmp_path / "no.toml") == (2, "", f"midstream: there is no pipeline {tmp_path}/no.toml\n")


@pytest.mark.parametrize(("missing", "parts"), [("pyspark", ["midstream[spark]"]), ("java", ["Java 17", "JAVA_HOME"])])
def test_without_pyspark_or_java(missing: str, parts: list[str], tmp_path: Path, midstream, monkeypatch) -> None:
    from midstream.spark import available

    monkeypatch.setattr(available, "find_spec", lambda name: None if missing == "pyspark" else object())
    monkeypatch.setattr(available, "find_java", lambda: None)
    code, out, err = midstream("run", write(tmp_path, GOOD))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
