"""Files of adopted programs that are cut short, garbled or of another format are named in one sentence."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.live.adopted.build import source_of
from midstream.live.adopted.compare import difference
from midstream.live.adopted.gate_log import CATCHING_UP, Deployment, GateLog, GateState, VersionEntry
from midstream.live.adopted.journal import Journal, JournalStream
from midstream.live.adopted.request import DeployRequest, deploy_request
from midstream.live.adopted.version_folder import VersionFolder
from midstream.local.disk import THIS_MACHINE
from midstream.model.errors import MidstreamError

SCHEMA = pa.schema([("stream", pa.string()), ("s0", pa.struct([("t", pa.timestamp("ns")), ("k", pa.int64())]))])
SPOILED = [b"", b"\0\0\0\0", b"{}", b"[]", b'{"format": 1}', b'{"format": 99}', b"garbage"]


def journal(folder: Path) -> Journal:
    return Journal(folder / "journal", THIS_MACHINE, [JournalStream("s", "t")])


def rows(*times_us: int) -> pa.Table:
    return pa.Table.from_pylist([{"stream": "s", "s0": {"t": t * 1000, "k": 1}} for t in times_us], schema=SCHEMA)


@pytest.mark.parametrize("data", SPOILED)
def test_a_spoiled_gate_log_is_named(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_bytes(data)
    with pytest.raises(MidstreamError, match=r"gate\.json"):
        GateLog(tmp_path, THIS_MACHINE).read()


def test_the_gate_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    deployment = Deployment("7", DeployRequest("a.py:b", history_us=5), 1, 2, CATCHING_UP, seen=4, settled=6)
    state = GateState(3, ((1, 1), (2, 3)), (VersionEntry(2, "a.py:b", 3),), 2, "6", deployment, 9)
    log = GateLog(tmp_path, THIS_MACHINE)
    assert log.read() is None
    log.write(state)
    assert log.read() == state


@pytest.mark.parametrize("data", SPOILED)
def test_a_spoiled_segment_is_named(data: bytes, tmp_path: Path) -> None:
    journal(tmp_path).append(rows(1, 2), 0)
    (tmp_path / "journal" / "00000001.parquet").write_bytes(data)
    with pytest.raises(MidstreamError, match=r"00000001\.parquet"):
        journal(tmp_path)


def test_a_segment_of_another_format_is_refused(tmp_path: Path) -> None:
    held = journal(tmp_path)
    held.append(rows(1), 0)
    table = pq.read_table(held.file(1))
    said = {name: text.replace(b'"format": 1', b'"format": 9') for name, text in table.schema.metadata.items()}
    pq.write_table(table.replace_schema_metadata(said), held.file(1))
    with pytest.raises(MidstreamError, match="written in format 9"):
        journal(tmp_path)


def test_a_journal_knows_what_a_history_needs(tmp_path: Path) -> None:
    held = journal(tmp_path)
    for batch, times in enumerate([(1, 3), (9, 2), (8,), (20,), (22,)]):
        held.append(rows(*times), batch)
    held.append(rows(1000), 2)  # a micro-batch that comes again is there already
    held.tick()
    assert (held.first, held.last, held.ticked, held.rows_in) == (1, 6, True, 7)
    # At 22: rows since 22, 20, 13, 9, 1.
    assert [held.needed(width) for width in (0, 2, 9, 13, 21)] == [5, 4, 4, 2, 1]
    assert held.needed(0, upto=3) == 2
    held.trim(3)
    again = journal(tmp_path)
    assert (again.first, again.last, again.rows_in) == (3, 6, 7)
    assert again.append(rows(5), 4) == 6
    assert again.append(rows(23), 5) == 7


def test_a_version_reads_one_segment_after_the_other(tmp_path: Path) -> None:
    held = journal(tmp_path)
    for batch in range(3):
        held.append(rows(batch), batch)
    folder = VersionFolder(tmp_path / "1", THIS_MACHINE, held, 2)
    folder.feed()
    folder.feed()
    assert [f.name for f in folder.input.iterdir()] == ["00000002.parquet"]
    with pytest.raises(MidstreamError, match="no segment of its own"):
        folder.begin(1)
    assert folder.begin(0) == 2
    folder.answer(2, pa.table({"k": [1]}))
    assert folder.feed()
    again = VersionFolder(tmp_path / "1", THIS_MACHINE, held, 2)
    assert (again.fed, again.answered) == (3, 2)
    again.answer(2, pa.table({"k": [9, 9]}))
    assert again.read(2).to_pydict() == {"k": [1]}
    (again.output / "00000002.parquet").write_bytes(b"PAR1")
    with pytest.raises(MidstreamError, match=r"00000002\.parquet"):
        again.read(2)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("none.py:build", None, "no file"),
        ("a.py:build", "def other(): pass", "no function 'build'"),
        ("a.py:build", "def build(:", "no Python"),
        ("a.py", "def build(): pass", "file.py:function"),
    ],
)
def test_a_program_that_is_not_there_is_refused(name: str, text: str | None, word: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "a.py").write_text(text)
    with pytest.raises(MidstreamError, match=word):
        source_of(f"{tmp_path}/{name}")


def test_what_users_say_becomes_a_request() -> None:
    asked = deploy_request("a.py:b", True, None, {"history": "2 minutes", "verify": False, "grace": None})
    assert (asked.how, asked.history_us, asked.verify, asked.grace_us) == ("immediate", 120_000_000, "no", 600_000_000)
    assert asked == DeployRequest.of(json.loads(json.dumps(asked.to_dict())))
    with pytest.raises(MidstreamError, match="'colour'"):
        deploy_request("a.py:b", False, None, {"colour": "blue"})


def test_tables_without_rows_are_the_same() -> None:
    assert difference(pa.table({"k": pa.array([], pa.int64())}), pa.table({"k": pa.array([], pa.int32())})) is None
