"""What is read from files becomes part of a path only where it is a plain name: nothing elsewhere is touched."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.live.checkpoint import Checkpoint
from midstream.live.control_log import ControlLog
from midstream.live.merger_log import MergerLog
from midstream.live.pack import CONTROL, unpack
from midstream.live.repository import VersionFiles
from midstream.local.batch_folder import BatchFolder
from midstream.model.errors import MidstreamError

ELSEWHERE = "../../x"


def engine() -> ms.Engine:
    made = ms.Engine()
    made.stream("a", pa.table({"ts": pa.array([0, 1_000_000], pa.timestamp("us")), "k": [1, 2]}), time="ts")
    return made


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize(
    ("name", "value"),
    [("id", ELSEWHERE), ("id", ""), ("id", None), ("labels", [ELSEWHERE]), ("labels", 3), ("buckets", "../..")],
)
def test_who_a_query_is(tmp_path: Path, name: str, value: Any) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.identify("q", engine().query("SELECT k FROM a [RANGE 1 MINUTE]").plan, 1, (0,), [])
    change(tmp_path / "midstream.json", **{name: value})
    with pytest.raises(MidstreamError) as refused:
        checkpoint.known()
    assert str(refused.value) == f"checkpoint {tmp_path} was tampered with: midstream.json has {name} = {value!r}"


def test_a_file_that_is_no_json_is_broken(tmp_path: Path) -> None:
    (tmp_path / "midstream.json").write_text('{"format": 1,')
    with pytest.raises(MidstreamError, match=r"midstream\.json is broken, it is no JSON"):
        Checkpoint(tmp_path).known()


def test_ids_of_control_rows(tmp_path: Path) -> None:
    outside = tmp_path / "precious.json"
    outside.write_text("{}")
    log = ControlLog(tmp_path / "control")
    log.send("stop")
    for identity in ("../precious", str(outside.with_suffix("")), ".", ""):
        assert not log.has(identity)
        assert log.read(identity) is None
        log.remove(identity)
    assert outside.exists()


def test_a_control_row_with_another_id_is_none() -> None:
    class Row:
        kind = CONTROL
        blob = json.dumps({"id": "../precious", "do": "stop"}).encode()

    packed = unpack([Row()], None)  # type: ignore[arg-type]
    assert packed.controls == []
    assert packed.strays == [Row.blob.decode()]


def test_versions_and_mergers(tmp_path: Path) -> None:
    versions = VersionFiles(tmp_path / "versions")
    number = versions.add("SELECT k FROM a", engine().query("SELECT k FROM a [RANGE 1 MINUTE]").plan)
    for name in ("7x.version", "notes.version", "x.over"):
        (versions.folder / name).write_text("")
    assert versions.numbers() == [number]
    assert versions.over() == set()
    change(versions.folder / f"{number:04d}.version", number=ELSEWHERE)
    with pytest.raises(MidstreamError, match="says that it is version"):
        versions.load(number, {})
    with pytest.raises(MidstreamError, match="versions have numbers from 1"):
        versions.plain(ELSEWHERE)  # type: ignore[arg-type]
    (tmp_path / "00000003.json").write_text(json.dumps({"merger": {}, "held": [ELSEWHERE]}))
    with pytest.raises(MidstreamError, match="was tampered with"):
        MergerLog(tmp_path, (0,), lambda _: None).before(4)  # type: ignore[arg-type,return-value]


def test_the_checkpoint_of_a_run_in_process(tmp_path: Path) -> None:
    precious = tmp_path / "precious.arrow"
    precious.write_text("")
    query, place = engine().query("SELECT k FROM a [RANGE 1 MINUTE]"), tmp_path / "cp"
    query.start(sink=tmp_path / "out", checkpoint=place)
    commit = json.loads((place / "commit.json").read_text())
    state = json.loads((place / commit["state"]).read_text())
    changes = [
        ("commit.json", {"files": [*commit["files"], "../precious.arrow"]}),
        ("commit.json", {"state": "../precious.arrow"}),
        (commit["state"], {"held": {"x": "../precious.arrow"}}),
        (commit["state"], {"buckets": [{"head": "", "tables": [["window", 1, 0, 0, "../precious.arrow"]]}]}),
    ]
    for file, values in changes:
        before = (place / file).read_text()
        change(place / file, **values)
        with pytest.raises(MidstreamError, match=r"was tampered with: .* names the file '\.\./precious\.arrow'"):
            query.start(sink=tmp_path / "out", checkpoint=place)
        (place / file).write_text(before)
    assert state["buckets"]
    assert precious.exists()
    query.start(sink=tmp_path / "out", checkpoint=place)


def test_results_of_micro_batches(tmp_path: Path) -> None:
    (tmp_path / "batch-notes.parquet").write_text("")
    BatchFolder(tmp_path, pa.schema([])).begin(3)
    assert (tmp_path / "batch-notes.parquet").exists()
