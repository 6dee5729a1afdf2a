"""Each durable file in turn is cut, emptied, filled with garbage or of another format: it is named in one sentence.

Never a traceback, never a run that goes on as if nothing had happened: whoever opens the checkpoint next is told which
file it is and what to do. What is spare, such as a heartbeat, may be broken without anybody noticing.
"""

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine.live_host import HostedRun, batches_of, two_streams
from engine.memory_store import MemoryStore

import midstream as ms
from midstream.engine.bucket.state import BucketState
from midstream.engine.results.merger import Departure
from midstream.engine.world import World
from midstream.live.checkpoint import Checkpoint
from midstream.live.control_log import ControlLog
from midstream.live.events import EventLog
from midstream.live.kept_table import KeptTable
from midstream.live.reading import read
from midstream.live.sink import Owner
from midstream.local.disk import THIS_MACHINE, SystemClock
from midstream.local.held_folder import HeldFolder
from midstream.model.errors import BrokenFileError, MidstreamError

JOIN = "SELECT a.k, a.v, b.v AS w FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
OTHER = JOIN.replace("a [RANGE 5", "a [RANGE 2")
BLANK = "SELECT k, v FROM a [RANGE 3 SECONDS] WHERE v > 20"


def spoilings(data: bytes, seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield ways in which a power cut or a bad disk leaves a file."""
    rnd = random.Random(seed)
    yield "empty", b""
    yield "zeros", bytes(len(data))
    yield "cut to a half", data[: len(data) // 2]
    yield "a byte short", data[: len(data.rstrip()) - 1]
    yield "one byte", data[:1]
    yield "garbage", rnd.randbytes(len(data))
    yield "another file", b"[]"
    yield "a number", b"7"
    yield "an empty document", b"{}"
    yield "deeply nested", b"[" * 100_000


def other_formats(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a document as other releases would write it."""
    plain = json.loads(data)
    for found in (0, 99, None, "1", 1.5, True, [1]):
        yield f"format {found!r}", json.dumps({**plain, "format": found}).encode()


def said_of(open_it: Callable[[], object]) -> str | None:
    """Return the sentence with which something is refused, or None; nothing else comes."""
    try:
        open_it()
    except MidstreamError as error:
        said = str(error)
        assert said.strip()
        assert "\n" not in said
        return said
    return None


# In process ----------------------------------------------------------------------------------------------------------


def engine() -> ms.Engine:
    made = ms.Engine()
    for number, name in enumerate("ab"):
        rng = np.random.default_rng(number)
        columns = {"ts": np.sort(rng.integers(0, 9_000_000, 90)), "k": rng.integers(0, 4, 90), "v": np.arange(90)}
        made.stream(name, pa.table(columns), time="ts")
    return made


def started(folder: Path) -> Any:
    return engine().query(JOIN).start(paused=True, batch="1 s", checkpoint=folder / "checkpoint", sink=folder / "out")


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in process that was stopped on its way, while a change holds results back."""
    folder = tmp_path_factory.mktemp("in-process")
    run = started(folder)
    run.advance(4_000_000)
    run.change(OTHER, "drain", order="query")
    run.register(BLANK)
    run.advance(7_000_000)
    run.stop()
    return folder


@pytest.mark.slow
def test_a_broken_file_of_a_run_in_process_is_named(in_process: Path, tmp_path: Path) -> None:
    names = sorted(file.name for file in (in_process / "checkpoint").iterdir())
    kinds = {name.rstrip("0123456789").partition("-")[2] or name for name in names}
    assert any("merger" in name for name in names), "results are held back"
    assert any("window" in name for name in names), kinds
    for name in names:
        if name == "lock":
            continue
        data = (in_process / "checkpoint" / name).read_bytes()
        ways = [*spoilings(data), ("missing", None)]
        if name in ("identity.json", "commit.json"):
            ways += other_formats(data)
        for how, spoiled in ways:
            if name == "batches.jsonl" and spoiled is not None and len(spoiled) > len(data):
                spoiled = spoiled[: len(data)]
            copy = _copied(in_process, tmp_path / "copy")
            file = copy / "checkpoint" / name
            if spoiled is None:
                file.unlink()
            else:
                file.write_bytes(spoiled)
            said = said_of(lambda copy=copy: started(copy))
            if how == "missing" and name in ("identity.json", "commit.json"):
                continue  # as if the run had not begun
            assert said is not None, (name, how)
            assert name in said or str(copy / "checkpoint") in said, (name, how, said)
            assert "checkpoint" in said.partition(";")[2] or "release" in said, (name, how, said)


@pytest.mark.parametrize("name", ["identity.json", "commit.json", "lock", "batches.jsonl"])
def test_a_folder_that_has_the_name_of_a_file_is_named(in_process: Path, tmp_path: Path, name: str) -> None:
    copy = _copied(in_process, tmp_path / "copy")
    file = copy / "checkpoint" / name
    file.unlink(missing_ok=True)
    file.mkdir()
    said = said_of(lambda: started(copy))
    assert said is not None
    assert name in said
    assert name == "lock" or not HeldFolder(copy / "checkpoint").taken


def _copied(folder: Path, copy: Path) -> Path:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    identity = copy / "checkpoint" / "identity.json"
    identity.write_text(identity.read_text().replace(str((folder / "out").resolve()), str((copy / "out").resolve())))
    return copy


def test_the_copy_that_is_spoiled_goes_on(in_process: Path, tmp_path: Path) -> None:
    run = started(_copied(in_process, tmp_path / "copy"))
    run.finish()
    assert run.changes()[0]["rows_held"]


# Live ----------------------------------------------------------------------------------------------------------------


class Lived:
    """A live query that was stopped while a change holds results back: its folder, and the stores of its buckets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stores = folder, dict[int, MemoryStore]()
        run = self.opened(folder)
        for rows in batches_of(1, 0, 4):
            run.tick(rows)
        run.change(OTHER, "drain", "query")
        run.register(BLANK)
        for rows in batches_of(1, 4, 7):
            run.tick(rows)
        run.end()

    def opened(self, folder: Path) -> HostedRun:
        stores = {label: store.copy() for label, store in self.stores.items()} if self.stores else self.stores
        return HostedRun(JOIN, two_streams(), folder, stores)

    def goes_on(self, folder: Path) -> None:
        run = self.opened(folder)
        try:
            for rows in batches_of(1, 7, 9):
                run.tick(rows)
            run.changes()
            run.registered()
        finally:
            run.end()


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    return Lived(tmp_path_factory.mktemp("live"))


SPARE = ("heartbeat", "lock", "events.jsonl")
"""What may be broken: the query goes on."""
NAMED = ".begun"
"""The ending of files that say everything by their name."""
FORMATTED = ("midstream.json", "00000001.json", "status.json", "catalog.json", "0002.version", "_midstream.json")


def live_files(folder: Path) -> list[Path]:
    """Return the durable files of a live query, but for its results; of the states of the merger the newest."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("batch-"))
    states = [file for file in files if file.parent.name == "mergers"]
    newest = max(file.name[:8] for file in states)
    return [file for file in files if file not in states or file.name.startswith(newest)]


@pytest.mark.slow
def test_a_broken_file_of_a_live_query_is_named(lived: Lived, tmp_path: Path) -> None:
    seen = set()
    for original in live_files(lived.folder):
        data, name = original.read_bytes(), original.name
        ways = list(spoilings(data))
        if name in FORMATTED:
            ways += other_formats(data)
        for how, spoiled in ways:
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(lived.folder, copy)
            (copy / original.relative_to(lived.folder)).write_bytes(spoiled)
            said = said_of(lambda copy=copy: lived.goes_on(copy))
            seen.add(original.suffix)
            control = original.parent.name == "control"
            if original.suffix == NAMED:
                assert said is None, (name, how, said)
                continue
            if name in SPARE or control or (name == "status.json" and how in ("an empty document", "format None")):
                assert said is None or "format" in said or control, (name, how, said)
                continue
            assert said is not None, (name, how)
            assert name in said or str(copy) in said, (name, how, said)
            assert "\n" not in said
    assert seen == {".json", ".jsonl", ".version", ".arrow", NAMED, ""}


@pytest.mark.parametrize(
    "name",
    [
        "", "control", "lock", "midstream.json", "status.json", "events.jsonl", "heartbeat", "runs",
        "runs/00000001.json", "versions", "versions/catalog.json", "versions/mergers",
    ],
)  # fmt: skip
def test_what_has_the_name_of_a_file_or_folder_and_is_none_is_named(lived: Lived, tmp_path: Path, name: str) -> None:
    shutil.copytree(lived.folder, tmp_path / "copy")
    file = tmp_path / "copy" / "checkpoint" / name
    if file.is_dir():
        shutil.rmtree(file)
        file.write_text("x")
    else:
        file.unlink()
        file.mkdir()
    said = said_of(lambda: lived.goes_on(tmp_path / "copy"))
    assert said is not None
    assert str(file) in said


def test_a_disk_without_room_is_named(lived: Lived, tmp_path: Path) -> None:
    class Full(type(THIS_MACHINE.files)):  # type: ignore[misc]
        def write(self, file: Path, data: Any, lasting: bool = True) -> None:
            raise OSError(28, "No space left on device", str(file))

    shutil.copytree(lived.folder, tmp_path / "copy")
    world = replace(THIS_MACHINE, files=Full(), readable=None)
    stores = {label: store.copy() for label, store in lived.stores.items()}
    said = said_of(lambda: HostedRun(JOIN, two_streams(), tmp_path / "copy", stores, world=world))
    assert said is not None
    assert "No space left on device" in said


def test_the_copy_of_a_live_query_goes_on(lived: Lived, tmp_path: Path) -> None:
    shutil.copytree(lived.folder, tmp_path / "copy")
    lived.goes_on(tmp_path / "copy")


def test_a_broken_state_of_a_bucket_is_named(lived: Lived) -> None:
    head = lived.stores[0].head
    assert head is not None
    for how, spoiled in [*spoilings(head.encode()), *other_formats(head.encode())]:
        store = MemoryStore()
        store.head = spoiled.decode("utf-8", "replace")
        said = said_of(lambda store=store: BucketState.read(store, True, 3))
        assert said is not None, how
        assert "the state of bucket 3" in said


def test_a_control_row_of_a_newer_release_is_a_stray(tmp_path: Path) -> None:
    log = ControlLog(tmp_path)
    row = log.send("stop")
    file = tmp_path / f"{row}.json"
    assert json.loads(file.read_text())["format"] == 1
    assert log.read(row) == {"id": row, "do": "stop"}
    for how, spoiled in [
        *spoilings(file.read_bytes()),
        ("newer", b'{"format": 2, "id": "%s", "do": "x"}' % row.encode()),
    ]:
        file.write_bytes(spoiled)
        assert log.read(row) is None, how
    file.write_text(json.dumps({"id": row, "do": "stop"}))
    assert log.rows() == [{"id": row, "do": "stop"}], "written by hand"


def test_events_survive_what_was_cut_and_name_their_format(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", THIS_MACHINE)
    for n in range(3):
        log.add({"event": "rebuilt", "batch": n})
    file = tmp_path / "events.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[0]) == {"format": 1}
    file.write_bytes(b"".join(lines[:2]) + lines[2][:9] + b"\n[]\n7\n\xff\xfe\n" + lines[3][:5])
    again = EventLog(file, THIS_MACHINE)
    again.add({"event": "stopped"})
    assert [e["event"] for e in again.all()] == ["rebuilt", "stopped"]
    file.write_bytes(b'{"format": 2}\n' + lines[1])
    with pytest.raises(MidstreamError, match=r"events\.jsonl was written in format 2"):
        EventLog(file, THIS_MACHINE).all()


def test_a_broken_status_or_heartbeat_is_no_reason_to_end(lived: Lived, tmp_path: Path) -> None:
    shutil.copytree(lived.folder, tmp_path / "copy")
    checkpoint = Checkpoint(tmp_path / "copy" / "checkpoint")
    for _, spoiled in spoilings(b'{"at": 5.0}'):
        (checkpoint.folder / "heartbeat").write_bytes(spoiled)
        (checkpoint.folder / "status.json").write_text('{"state": "running", "host": "another", "updated": 1}')
        assert checkpoint.read_status()["state"] == "died"
    (checkpoint.folder / "status.json").write_bytes(b"")
    with pytest.raises(MidstreamError, match=r"status\.json is broken, it is empty; remove it"):
        checkpoint.read_status()
    (checkpoint.folder / "status.json").unlink()
    lived.goes_on(tmp_path / "copy")


class Watch(SystemClock):
    """A clock on which pauses take no time; at the third of them a heart beats."""

    def __init__(self, heartbeat: Path | None) -> None:
        self._paused, self._heartbeat = 0, heartbeat

    def pause(self, seconds: float) -> None:
        self._paused += 1
        if self._paused == 3 and self._heartbeat is not None:
            self._heartbeat.write_text(json.dumps({"format": 1, "at": 4e9}))


@pytest.mark.parametrize("beats", [True, False])
@pytest.mark.parametrize("ahead_s", [0, -50, -90, 90, 3e7, -3600, -3e7])
def test_a_clock_that_is_wrong_says_nothing_of_life(tmp_path: Path, ahead_s: float, beats: bool) -> None:
    """A process of another host lives if it was heard of just now, or if its heart beats while somebody watches."""
    heartbeat = tmp_path / "heartbeat"
    checkpoint = Checkpoint(tmp_path, replace(THIS_MACHINE, clock=Watch(heartbeat if beats else None)))
    heartbeat.write_text(json.dumps({"format": 1, "at": time.time() + ahead_s}))
    (tmp_path / "status.json").write_text('{"state": "running", "host": "another", "updated": 1}')
    alive = abs(ahead_s) < 60 or (beats and ahead_s > -7 * 86_400)
    assert checkpoint.read_status()["state"] == ("running" if alive else "died")


@pytest.mark.parametrize(
    "spoiled",
    [
        '"updated": NaN', '"updated": "x"', '"updated": Infinity', '"updated": null', '"updated": [1]', '"state": 5',
        '"state": null', '"last_batch": 7', '"last_batch": {"batch": "x"}', '"rows_in": "many"', '"late": NaN',
    ],
)  # fmt: skip
def test_a_status_that_makes_no_sense_is_broken(tmp_path: Path, spoiled: str) -> None:
    (tmp_path / "status.json").write_text(f'{{"format": 1, "state": "running", "host": "another", {spoiled}}}')
    key = spoiled.split('"')[1]
    with pytest.raises(
        BrokenFileError, match=rf"status\.json is broken, its {key} is .*; remove it: the query goes on"
    ):
        Checkpoint(tmp_path).read_status()


def test_a_broken_kept_table_is_named(tmp_path: Path) -> None:
    owner = Owner("q", "q", tmp_path / "checkpoint", True)
    rows = pa.RecordBatch.from_pydict({"k": [1], "_time": [1], "_version": [1], "_hop": [1], "_sign": [1]})
    table = KeptTable(tmp_path)
    table.begin(owner)
    table.write([Departure(rows, 1)], rows.schema, 0)
    data = table.file.read_bytes()
    assert pq.read_metadata(table.file).metadata[b"midstream.format"] == b"1"
    for how, spoiled in spoilings(data):
        table.file.write_bytes(spoiled)
        said = said_of(lambda: table.begin(owner))
        assert said is not None, how
        assert "table.parquet" in said
    held = pq.read_table(pa.BufferReader(data))
    pq.write_table(held.replace_schema_metadata({**held.schema.metadata, b"midstream.format": b"9"}), table.file)
    assert "written in format 9" in str(said_of(lambda: table.begin(owner)))


def test_broken_results_are_named(lived: Lived, tmp_path: Path) -> None:
    shutil.copytree(lived.folder / "out", tmp_path / "out")
    assert read(tmp_path / "out").num_rows
    file = sorted((tmp_path / "out").glob("batch-*"))[0]
    for how, spoiled in spoilings(file.read_bytes()):
        file.write_bytes(spoiled)
        said = said_of(lambda: read(tmp_path / "out"))
        assert said is not None, how
        assert file.name in said


def test_a_disk_that_cannot_be_read_is_named(lived: Lived, tmp_path: Path) -> None:
    class Failing(type(THIS_MACHINE.files)):  # type: ignore[misc]
        def read(self, file: Path) -> bytes:
            if file.name == "0002.version":
                raise OSError(5, "Input/output error")
            return super().read(file)

    shutil.copytree(lived.folder, tmp_path / "copy")
    world = World(Failing(), THIS_MACHINE.clock, THIS_MACHINE.names)
    stores = {label: store.copy() for label, store in lived.stores.items()}
    said = said_of(lambda: HostedRun(JOIN, two_streams(), tmp_path / "copy", stores, world=world))
    assert said is not None
    assert "0002.version cannot be read: Input/output error" in said
