"""A kept table takes each change once; while two versions answer the same hops it is the answer of the newer one."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms
from midstream.engine.results.merger import Departure
from midstream.live.kept_table import KeptTable
from midstream.live.sink import Owner
from midstream.model.errors import SinkError


def answer(hop_us: int, *rows: tuple[int, int, str]) -> Departure:
    """Return what leaves at a hop: (version, sign, value)."""
    columns = {
        "k": pa.array([k for _, _, k in rows], pa.string()),
        "_time": pa.array([hop_us] * len(rows), pa.int64()),
        "_version": pa.array([version for version, _, _ in rows], pa.int64()),
        "_hop": pa.array([hop_us] * len(rows), pa.int64()),
        "_sign": pa.array([sign for _, sign, _ in rows], pa.int64()),
    }
    return Departure(pa.record_batch(columns), hop_us)


def kept(folder: Path, *batches: list[Departure]) -> tuple[list[Any], int]:
    """Write micro-batches, each twice; return what the table holds, and of which hop."""
    table = KeptTable(folder)
    table.begin(Owner("me", "query", folder, False))
    for number, batch in enumerate(batches):
        for _ in range(2):
            table.write(batch, batch[0].rows.schema, number)
    held = pq.read_table(table.file)
    return sorted(held.column("k").to_pylist()), int(held.schema.metadata[b"midstream.hop"])


def test_answers_of_two_versions_at_one_hop_are_told_apart(tmp_path: Path) -> None:
    first = [answer(10, (1, 1, "a")), answer(20, (1, 1, "b"), (2, 1, "x"))]
    second = [answer(30, (1, -1, "a"), (2, -1, "x"), (2, 1, "y")), answer(40, (2, 1, "z"))]
    assert kept(tmp_path, first, second) == (["y", "z"], 40)


def test_a_table_is_read_as_results_are(tmp_path: Path) -> None:
    kept(tmp_path, [answer(10, (1, 1, "a"))])
    assert ms.read(tmp_path).to_pydict() == {"k": ["a"]}


def test_an_answer_in_pieces_is_one_answer(tmp_path: Path) -> None:
    batch = [answer(10, (1, 1, "a")), answer(10, (1, 1, "b")), answer(20, (1, -1, "b"))]
    assert kept(tmp_path, batch) == (["a"], 20)


def test_an_empty_answer_moves_the_hop_on(tmp_path: Path) -> None:
    assert kept(tmp_path, [answer(10, (1, 1, "a"))], [answer(20)], [answer(30, (1, 1, "b"))]) == (["a", "b"], 30)


def empty(hop_us: int, *more: str) -> Departure:
    """Return an answer that changes nothing, of a version with further columns."""
    rows = answer(hop_us).rows
    for name in more:
        rows = pa.record_batch([pa.array([], pa.int64()), *rows.columns], [name, *rows.schema.names])
    return Departure(rows, hop_us)


def test_versions_with_other_columns_that_change_nothing_at_one_hop(tmp_path: Path) -> None:
    batch = [answer(10, (1, 1, "a")), empty(20, "total"), empty(20), empty(30, "total")]
    assert kept(tmp_path, batch) == (["a"], 30)


@pytest.mark.parametrize("others", [[empty(20)], [empty(20, "total")], [answer(20, (1, 1, "x"))]])
def test_changes_are_taken_in_whichever_version_speaks_first_at_their_hop(
    tmp_path: Path, others: list[Departure]
) -> None:
    changes = answer(20, (2, 1, "c"), (2, -1, "b"))
    first = [answer(10, (2, 1, "b"))]
    for place, batch in enumerate(([*others, changes], [changes, *others])):
        assert kept(tmp_path / str(place), first, batch) == (["c"], 20)


def test_a_table_takes_each_change_once(tmp_path: Path) -> None:
    def change(hop: int, *rows: tuple[str | None, float | None, int]) -> Departure:
        at = [hop] * len(rows)
        names, numbers, signs = zip(*rows, strict=True) if rows else ((), (), ())
        columns = {"s": pa.array(names, pa.string()), "x": pa.array(numbers, pa.float64())}
        added = {
            n: pa.array(v, pa.int64())
            for n, v in (("_time", at), ("_version", [1] * len(rows)), ("_hop", at), ("_sign", signs))
        }
        return Departure(pa.record_batch({**columns, **added}), hop)

    table = KeptTable(tmp_path / "kept")
    table.begin(Owner("me", "query", tmp_path, False))
    nan = float("nan")
    first = [change(10, ("a", 1.0, 1), ("a", 1.0, 1), (None, nan, 1)), change(20), change(30, ("b", None, 1))]
    second = [change(40, ("a", 1.0, -1), (None, nan, -1), ("c", -2.0, 1))]
    for batch in (first, first, second, second):
        table.write(batch, batch[0].rows.schema, 0)
    held = pq.read_table(table.file).to_pydict()
    assert list(zip(*held.values(), strict=True)) == [("a", 1.0), ("b", None), ("c", -2.0)]
    with pytest.raises(SinkError, match="does not hold what is to go"):
        table.write([change(50, ("d", 0.0, -1))], pa.schema([]), 5)


def test_a_folder_has_one_table_of_one_query_before_its_first_row(tmp_path: Path) -> None:
    first, second, late = KeptTable(tmp_path), KeptTable(tmp_path), KeptTable(tmp_path)
    owners = [Owner(name * 32, name, tmp_path / name, False) for name in "12"]
    first.begin(owners[0])
    with pytest.raises(SinkError, match=r"has results of query '1' with checkpoint .*; give this one a folder of its"):
        second.begin(owners[1])
    batch = [answer(10, (1, 1, "a"))]
    first.write(batch, batch[0].rows.schema, 0)
    late._query = b"2"
    with pytest.raises(SinkError, match="kept up to date by another query"):
        late.write([answer(20, (1, 1, "b"))], batch[0].rows.schema, 0)
    KeptTable(tmp_path).begin(owners[0])
    assert ms.read(tmp_path).to_pydict() == {"k": ["a"]}


def test_a_table_of_the_last_release_has_an_owner_from_now_on(tmp_path: Path) -> None:
    kept(tmp_path, [answer(10, (1, 1, "a"))])
    (tmp_path / "_midstream.json").unlink()
    KeptTable(tmp_path).begin(Owner("me", "query", tmp_path, True))
    (tmp_path / "table.parquet").unlink()
    with pytest.raises(SinkError, match="has results of query 'query'"):
        KeptTable(tmp_path).begin(Owner("another", "other", tmp_path, False))
