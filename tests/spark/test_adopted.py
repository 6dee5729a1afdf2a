"""Programs of users on Spark, adopted and replaced while they run: the output shows nothing of it."""

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from spark import own_rows
from spark.own_rows import NAMES, SCHEMA, Files, bag, draw

import midstream as ms
from midstream.app.cli import app
from midstream.model.errors import MidstreamError
from midstream.spark.settings import REHEARSAL, held_settings
from seeds import some

pytestmark = pytest.mark.spark

PROGRAMS = Path(__file__).with_name("own_programs.py")
RUNS: list[Any] = []
"""Those of a test: what it leaves running is stopped."""
FAST = {"processingTime": "100 milliseconds"}


def program(name: str) -> str:
    return f"{PROGRAMS}:{name}"


def adopt(spark: Any, folder: Path, build: Any, trigger: Any = FAST, **more: Any) -> Any:
    """Start a program over files that appear in a folder."""
    engine = ms.Engine(spark)
    for name in NAMES:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        engine.stream(name, reader.parquet(str(folder / "in" / name)), time="ts")
    run = engine.adopt("own", build, more.pop("builds", ())).start(
        folder / "out", folder / "checkpoint", trigger=trigger, **more
    )
    RUNS.append(run)
    return run


def wait_until(true: Callable[[], Any], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def finish(run: Any, drawn: Any) -> None:
    """Wait until everything has been read and answered, and time has gone on; stop."""
    total = sum(len(file) for name in NAMES for file in drawn[name])

    def over() -> bool:
        if not run._watch.is_alive():
            run.wait()
        status = run.status()
        return status["rows_in"] == total and run._journal.ticked and status["published"] == run._journal.last

    wait_until(over)
    run.stop()


@pytest.fixture
def narrow(spark: Any) -> Any:
    """A session with two partitions in shuffles, that starts no process for each file of a checkpoint."""
    with held_settings(spark, {**REHEARSAL, "spark.sql.shuffle.partitions": "2"}):
        yield spark
    while RUNS:
        RUNS.pop().stop()


CASES = [
    ("totals", {"strategy": "general-hybrid", "history": "9 seconds", "verify": True, "segments": 3}),
    ("paid", {"strategy": "general-parallel-track", "history": "7 seconds"}),
    ("numbered", {"strategy": "general-moving-state"}),
    ("scaled", {"strategy": "general-hybrid", "verify": "report", "segments": 2}),
]


MORE = [
    ("busiest", {"history": "12 seconds", "verify": True, "segments": 1}),
    ("once", {}),
    ("sessions", {"strategy": "general-parallel-track", "history": "5 seconds"}),
]
"""These take turns."""
CASES += some(MORE, 1)


@pytest.mark.parametrize(("name", "how"), CASES, ids=[name for name, _ in CASES])
def test_a_rewritten_program_takes_over_under_load(narrow: Any, tmp_path: Path, name: str, how: dict[str, Any]) -> None:
    files = Files(tmp_path / "in", draw(1, 300))
    files.write(8)
    run = adopt(narrow, tmp_path, program(name))
    wait_until(lambda: run.status().get("published", 0) >= 4)
    files.keep_ahead(lambda: run._journal.rows_in)
    identity = run.migrate(program(f"{name}_rewritten"), grace="1 second", **how)
    record = run.wait_for_deployment(identity, 240)
    assert record is not None, run.status()
    assert record["state"] in ("switched", "done"), record
    assert record["differing"] == 0
    drawn = files.finish()
    finish(run, drawn)
    out = bag(ms.read(tmp_path / "out"))
    assert out == getattr(own_rows, name)(drawn)
    status = run.status()
    assert status["version"] == 2
    assert [turn[0] for turn in status["turns"]] == [1, 2]
    assert out.total() == status["rows_out"]


def test_a_program_that_is_no_good_changes_nothing(narrow: Any, tmp_path: Path) -> None:
    files = Files(tmp_path / "in", draw(2, 300, each=8))
    files.write(10)
    run = adopt(narrow, tmp_path, program("totals"))
    wait_until(lambda: run.status().get("published", 0) >= 8)
    files.keep_ahead(lambda: run._journal.rows_in)
    said = []
    for name, options in (
        ("no_stream", {}),
        ("no_program", {}),
        ("totals_crashing", {}),
        ("totals_hanging", {"timeout": "4 seconds"}),
        ("totals_wrong", {"verify": True, "segments": 1}),
        ("paid", {}),
    ):
        record = run.wait_for_deployment(run.migrate(program(name), **options), 240)
        assert record is not None, (name, run.status())
        said.append((record["state"], record["reason"]))
    drawn = files.finish()
    finish(run, drawn)
    words = [
        "there is no stream 'oders'; there are",
        "no_such_column",
        "no total is good enough",
        "no further",
        "its output differs: at segment",
        "the output changes",
    ]
    for (state, reason), word in zip(said, words, strict=True):
        assert state in ("rolled back", "refused")
        assert word in reason
    assert bag(ms.read(tmp_path / "out")) == own_rows.totals(drawn)
    assert run.status()["turns"] == [[1, 1]]


def command(*words: str) -> None:
    """Run a command of the command line."""
    assert app(list(words), standalone_mode=False) in (None, 0)


def test_another_meaning_from_a_known_position_on_and_back(
    narrow: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = Files(tmp_path / "in", draw(3, 300, each=8))
    files.write(10)
    run = adopt(narrow, tmp_path, program("totals"))
    wait_until(lambda: run.status().get("published", 0) >= 8)
    files.keep_ahead(lambda: run._journal.rows_in)
    with pytest.raises(MidstreamError, match="out of sight"):
        run.change(program("wider"), method="drain")
    place = str(tmp_path / "checkpoint")
    command("deploy", place, program("wider"), "--change", "immediate", "--history", "14 seconds")
    changed = run.deployments()[-1]
    assert changed["state"] == "switched", changed
    assert f"version 2 from segment {changed['position'] + 1} on" in capsys.readouterr().out
    wait_until(lambda: run.status()["published"] >= changed["position"] + 14)
    command("versions", place, "--json")
    told = json.loads(capsys.readouterr().out)
    assert [(v["version"], v["role"]) for v in told["versions"]] == [(1, "kept"), (2, "answers")]
    command("versions", place)
    assert "own_programs.py:wider" in capsys.readouterr().out
    command("status", place)
    with pytest.raises(MidstreamError, match="midstream deploy"):
        command("migrate", place, "(a b)")
    command("rollback", place)
    assert "version 1 again" in capsys.readouterr().out
    with pytest.raises(MidstreamError, match="no version to go back to"):
        command("rollback", place)
    with pytest.raises(MidstreamError, match="no function 'nothing'"):
        command("deploy", place, program("nothing"))
    drawn = files.finish()
    finish(run, drawn)
    (_, first), (_, there), (_, again) = run.status()["turns"]
    assert (first, there) == (1, changed["position"] + 1)
    # Each segment has what its version would have answered to it, had it always run.
    five, ten = own_rows.totals(drawn), own_rows.totals(drawn, 10_000_000)
    out: dict[bool, Counter[tuple[Any, ...]]] = {True: Counter(), False: Counter()}
    for file in sorted((tmp_path / "out").glob("batch-*.parquet")):
        out[there <= int(file.stem.split("-")[1]) < again] += bag(pq.read_table(file))
    assert out[True] <= ten
    assert out[True]
    assert out[False] <= five
    assert out[False].total() < five.total()


def here(spark: Any, streams: dict[str, Any]) -> Any:
    """A function of this process."""
    return streams["orders"].select("k", "v")


def here_too(spark: Any, streams: dict[str, Any]) -> Any:
    return streams["orders"].select(streams["orders"].k, streams["orders"].v)


def of_the_same_name() -> Any:
    """Return a function as a notebook has it whose cell was changed and run again."""

    def changed(spark: Any, streams: dict[str, Any]) -> Any:
        return streams["orders"].select("k")

    changed.__qualname__ = here.__qualname__
    return changed


def test_a_restart_goes_on_with_the_version_that_answered(narrow: Any, tmp_path: Path) -> None:
    drawn = draw(4, 12, each=5)
    files = Files(tmp_path / "in", drawn)
    files.write(4)
    run = adopt(narrow, tmp_path, here)
    with pytest.raises(MidstreamError, match="this is another one: give it a name of its own"):
        run.migrate(of_the_same_name())
    record = run.wait_for_deployment(run.migrate(here_too, grace="0 seconds"), 240)
    assert record is not None
    wait_until(lambda: [v["version"] for v in run.versions()] == [2])
    run.stop()
    files.write(8)
    with pytest.raises(MidstreamError, match="here_too"):
        adopt(narrow, tmp_path, here).wait(60)
    run = adopt(narrow, tmp_path, here_too)
    files.write(12)
    finish(run, drawn)
    assert bag(ms.read(tmp_path / "out")) == Counter((k, v) for _, k, v in own_rows.rows(drawn, "orders"))
    with pytest.raises(MidstreamError, match="not running"):
        run.rollback()


def test_over_what_is_there_it_ends_by_itself(narrow: Any, tmp_path: Path) -> None:
    drawn = draw(5, 5, each=30)
    Files(tmp_path / "in", drawn).write(5)
    run = adopt(narrow, tmp_path, program("totals"), trigger={"availableNow": True}, keep="9 seconds")
    assert run.wait(240)
    assert run.status()["state"] == "stopped"
    # Windows that had closed with the last rows leave too, as with Spark's micro-batches without rows.
    assert bag(ms.read(tmp_path / "out")) == own_rows.totals(drawn)


def test_what_cannot_be_adopted_is_refused(narrow: Any, tmp_path: Path) -> None:
    Files(tmp_path / "in", draw(6, 1))
    with pytest.raises(MidstreamError, match="Engine\\(spark\\)"):
        ms.Engine().adopt("own", here)
    with pytest.raises(MidstreamError, match="declare the streams"):
        ms.Engine(narrow).adopt("own", here)
    with pytest.raises(MidstreamError, match="whole answers"):
        adopt(narrow, tmp_path, here, mode="complete")
    with pytest.raises(MidstreamError, match="no function 'nothing'"):
        adopt(narrow, tmp_path, program("nothing"))
    with pytest.raises(MidstreamError, match="two programs are called 'here'"):
        adopt(narrow, tmp_path, here, builds=[of_the_same_name()])
    with pytest.raises(MidstreamError, match="'hourly' names no program"):
        adopt(narrow, tmp_path, "hourly")
