"""A Delta table has each micro-batch once, whole; of two drivers that write one it takes one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from midstream.engine.results.merger import Departure
from midstream.live.blobs import to_blob
from midstream.live.delta_table import DeltaResults, delta_results
from midstream.live.lines import REPORT, RESULT
from midstream.live.sink import Owner
from midstream.model.errors import MidstreamError, SinkError

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us")), ("_time", pa.int64()), ("_version", pa.int64())])
SIGNED = pa.schema([("k", pa.string())] + [(n, pa.int64()) for n in ("_time", "_version", "_hop", "_sign")])


class Line(NamedTuple):
    bucket: int
    kind: int
    blob: bytes


class InWorkers:
    """Lines of a micro-batch in partitions."""

    def __init__(self, *partitions: list[Line]) -> None:
        self.partitions = partitions

    def collect(self) -> list[Line]:
        return [line for lines in self.partitions for line in lines]

    def written(self, write: Any) -> list[Line]:
        found = []
        for part, lines in enumerate(self.partitions):
            for batch in write(iter([_lines(lines)]), part):
                found += [Line(*row.values()) for row in batch.to_pylist()]
        return found


def _lines(lines: list[Line]) -> pa.RecordBatch:
    kinds = [("bucket", pa.int32()), ("kind", pa.int32()), ("blob", pa.binary())]
    return pa.record_batch(
        [pa.array([line[k] for line in lines], t) for k, (_, t) in enumerate(kinds)], schema=pa.schema(kinds)
    )


def rows(*keys: str, schema: pa.Schema = SCHEMA) -> pa.Table:
    n = len(keys)
    return pa.table([list(keys), [7] * n, list(range(n)), [1] * n], schema=schema)


def micro_batch(*partitions: list[str]) -> InWorkers:
    return InWorkers(
        *(
            [Line(0, RESULT, to_blob(rows(*keys))), Line(0, REPORT, json.dumps({"of": keys}).encode())]
            for keys in partitions
        )
    )


def answer(hop_us: int, *changes: tuple[int, str], version: int = 1, complete: bool = False) -> Departure:
    n = len(changes)
    columns = [[k for _, k in changes], [hop_us] * n, [version] * n, [hop_us] * n, [sign for sign, _ in changes]]
    changed = pa.record_batch(columns, schema=SIGNED)
    return Departure(changed.drop_columns(["_sign"]) if complete else changed, hop_us)


def sink(folder: Path, schema: pa.Schema = SCHEMA, who: str = "me", first: int = 0, **more: Any) -> DeltaResults:
    made = DeltaResults(folder, schema, **more)
    made.begin(Owner(who, "query", folder, first > 0))
    made.fence(first, lambda: None)
    return made


def keys(folder: Path) -> list[str]:
    return sorted(DeltaTable(folder).to_pyarrow_dataset().to_table().column("k").to_pylist())


def test_each_micro_batch_is_there_once(tmp_path: Path) -> None:
    table = sink(tmp_path)
    for number, batch in enumerate((micro_batch(["a", "b"], ["c"]), micro_batch([]), micro_batch(["d"]))):
        for _ in range(2):
            others = table.write_lines(batch, SCHEMA, number, False)
            assert [line.kind for line in others] == [REPORT] * len(batch.partitions)
    assert keys(tmp_path) == ["a", "b", "c", "d"]
    assert DeltaTable(tmp_path).version() == 2, "a commit for each micro-batch with results"
    files = DeltaTable(tmp_path).file_uris()
    assert duckdb.sql(f"SELECT k FROM read_parquet({files!r}) ORDER BY k").fetchall() == [(k,) for k in "abcd"]


def test_a_later_run_goes_on_and_an_older_checkpoint_is_refused(tmp_path: Path) -> None:
    sink(tmp_path).write_lines(micro_batch(["a"]), SCHEMA, 4, False)
    sink(tmp_path, first=5).write_lines(micro_batch(["a"]), SCHEMA, 4, False)
    assert keys(tmp_path) == ["a"]
    with pytest.raises(SinkError, match=r"has micro-batch 4, and the checkpoint is older"):
        sink(tmp_path, first=4)


def test_of_two_drivers_the_table_takes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has looked at the table and not found the micro-batch yet, when the other one writes it."""
    first, second = sink(tmp_path), sink(tmp_path)
    looked = first._open()
    second.write_lines(micro_batch(["a"]), SCHEMA, 0, False)
    monkeypatch.setattr(first, "_open", lambda: looked)
    with pytest.raises(SinkError, match="cannot be read or written"):
        first.write_lines(micro_batch(["a"]), SCHEMA, 0, False)
    assert keys(tmp_path) == ["a"]


def test_a_driver_that_was_overtaken_commits_nothing(tmp_path: Path) -> None:
    def refuse() -> None:
        raise MidstreamError("another run has begun")

    table = sink(tmp_path)
    table.fence(0, refuse)
    with pytest.raises(MidstreamError, match="another run"):
        table.write_lines(micro_batch(["a"]), SCHEMA, 0, False)
    assert keys(tmp_path) == []


def test_a_table_is_of_one_query_or_of_the_user(tmp_path: Path) -> None:
    sink(tmp_path / "mine")
    with pytest.raises(SinkError, match="belongs to another query"):
        sink(tmp_path / "mine", who="other")
    write_deltalake(tmp_path / "theirs", rows("x"))
    sink(tmp_path / "theirs").write_lines(micro_batch(["a"]), SCHEMA, 0, False)
    assert keys(tmp_path / "theirs") == ["a", "x"]
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "notes.txt").write_text("mine")
    with pytest.raises(SinkError, match="has other files and no Delta table"):
        sink(tmp_path / "files")
    with pytest.raises(SinkError, match="has other rows"):
        sink(tmp_path / "theirs", SIGNED, upsert=True)


def test_a_version_with_more_columns_widens_the_table(tmp_path: Path) -> None:
    table = sink(tmp_path)
    table.write_lines(micro_batch(["a"]), SCHEMA, 0, False)
    wide = pa.record_batch({"k": ["b"], "n": [5], "_time": [1], "_version": [2]})
    table.write([Departure(wide, None)], wide.schema, 1)
    held = DeltaTable(tmp_path).to_pyarrow_dataset().to_table().sort_by("k")
    assert held.column("n").to_pylist() == [None, 5]
    other = pa.record_batch({"k": [1], "_time": [1], "_version": [3]})
    with pytest.raises(SinkError, match=r"column 'k' of the Delta table .* is string, and the query emits long"):
        table.write([Departure(other, None)], other.schema, 2)


def test_a_whole_answer_replaces_the_last(tmp_path: Path) -> None:
    schema = answer(0, complete=True).rows.schema
    table = sink(tmp_path, schema)
    for number, batch in enumerate(([answer(10, (1, "a"), complete=True)], [answer(20, (1, "b"), complete=True)])):
        for _ in range(2):
            table.write(batch, schema, number)
    assert keys(tmp_path) == ["b"]
    table.write([answer(30, complete=True)], schema, 2)
    assert keys(tmp_path) == []


def test_an_answer_is_kept_up_to_date(tmp_path: Path) -> None:
    steps: Iterator[tuple[Departure, list[str]]] = iter(
        [
            (answer(-10, (1, "a"), (1, "a"), (1, "b")), ["a", "a", "b"]),
            (answer(0, (-1, "a")), ["a", "b"]),
            (answer(10), ["a", "b"]),
            (answer(20, (1, "z"), version=2), ["z"]),
            (answer(30, (1, "late")), ["z"]),
        ]
    )
    table = sink(tmp_path, SIGNED, upsert=True)
    for number, (changes, expected) in enumerate(steps):
        for _ in range(2):
            table.write([changes], SIGNED, number)
        assert keys(tmp_path) == expected
    assert "_sign" not in [field.name for field in DeltaTable(tmp_path).schema().fields]
    with pytest.raises(SinkError, match="changed by someone else"):
        table.write([answer(40, (-1, "nobody"), version=2)], SIGNED, 9)


@pytest.mark.parametrize(
    ("schema", "options", "sentence"),
    [
        (pa.schema([("a b", pa.int64())]), {}, "column 'a b' cannot be in the Delta table"),
        (pa.schema([("d", pa.duration("us"))]), {}, "column 'd' is duration.*CAST it"),
        (pa.schema([("v", pa.int64()), ("V", pa.int64())]), {}, "one column 'v', however it is written"),
        (SCHEMA, {"upsert": "true"}, "kept up to date by a hopping query"),
        (SIGNED, {"upsert": "yes"}, "upsert is true or false"),
        (SCHEMA, {"mode": "append"}, "no option 'mode'"),
    ],
)
def test_what_a_table_cannot_have_is_one_sentence(
    schema: pa.Schema, options: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(SinkError, match=sentence):
        delta_results(schema, {"path": str(tmp_path / "t"), **options})
    assert not (tmp_path / "t").exists()
