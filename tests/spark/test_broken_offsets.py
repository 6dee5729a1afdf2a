"""What a power cut has left of Spark's own files is named in a sentence that says what to do. Needs no Spark."""

from pathlib import Path

import pytest
from fixtures.kept_checkpoints import kept, unpack

from midstream.model.errors import BrokenFileError
from midstream.spark.offsets import keep_planned, planned_batch


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a checkpoint of Spark's, as Spark wrote it."""
    unpack(kept("spark")[-1], tmp_path)
    return tmp_path / "checkpoint" / "spark"


def cuts(data: bytes) -> list[bytes]:
    lines = data.splitlines(keepends=True)
    return [b"", bytes(len(data)), data[:1], lines[0], data[: len(data) // 2], data[:-1], b"".join(lines[:-1]), b"\xff"]


def test_what_is_whole_is_read(place: Path) -> None:
    assert planned_batch(place) == 4
    (place / "offsets" / ("²" * 3)).touch()
    (place / "offsets" / "notes").touch()
    assert planned_batch(place) == 4
    assert planned_batch(place / "none") == -1


@pytest.mark.parametrize("cut", range(8))
def test_offsets_that_were_cut_are_named(place: Path, cut: int) -> None:
    file = place / "offsets" / "4"
    file.write_bytes(cuts(file.read_bytes())[cut])
    with pytest.raises(BrokenFileError, match=r"offsets/4, which Spark wrote, is broken, it is empty or cut .*restore"):
        planned_batch(place)


@pytest.mark.parametrize("cut", range(8))
def test_offsets_of_which_nobody_has_seen_results_can_be_removed(place: Path, cut: int) -> None:
    """They are synced before there are any."""
    (place / "commits" / "4").unlink()
    file = place / "offsets" / "4"
    file.write_bytes(cuts(file.read_bytes())[cut])
    with pytest.raises(BrokenFileError, match=r"offsets/4, which Spark wrote, .*; remove it, and its \.crc .*planned"):
        planned_batch(place)
    file.unlink()
    assert planned_batch(place) == 3


def test_what_a_micro_batch_reads_is_synced(place: Path) -> None:
    synced: list[Path] = []
    keep_planned(place, 4, synced.append)
    files = [file for file in place.rglob("4*") if file.parent.name == "offsets" or "sources" in file.parts]
    assert {place / "offsets" / "4", place / "sources" / "0" / "4"} <= set(files)
    assert {file for file in synced if file.is_file()} == set(files)
    for file in files:
        assert file.parent in synced[synced.index(file) :]


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4, 5, 7])
def test_a_commit_that_was_cut_can_be_removed(place: Path, cut: int) -> None:
    file = place / "commits" / "4"
    file.write_bytes(cuts(file.read_bytes())[cut])
    with pytest.raises(
        BrokenFileError, match=r"commits/4, which Spark wrote, .*; remove it, and its \.crc if there is"
    ):
        planned_batch(place)
    file.unlink()
    assert planned_batch(place) == 4


def test_an_earlier_commit_cannot(place: Path) -> None:
    (place / "commits" / "3").write_bytes(b"v1\n")
    with pytest.raises(BrokenFileError, match=r"commits/3.*; restore it from a copy"):
        planned_batch(place)


@pytest.mark.parametrize("name", ["metadata", "sources/0/4", "sources/1/4", "state/0/_metadata/v2/0"])
def test_what_else_was_cut_is_named(place: Path, name: str) -> None:
    """Spark says of it, if anything, that it is no JSON."""
    file = place / name if (place / name).exists() else max((place / name).parent.glob("[0-9]*"))
    whole = file.read_bytes()
    for cut in (b"", bytes(len(whole)), whole[: len(whole) * 2 // 3]):
        file.write_bytes(cut)
        with pytest.raises(
            BrokenFileError, match=rf"{file.name}, which Spark wrote, is broken, it is empty or cut short"
        ):
            planned_batch(place)
    file.write_bytes(b"\0" + whole)  # as Kafka's begins
    (place / "sources" / "notes").write_text("x")
    assert planned_batch(place) == 4


@pytest.mark.parametrize("ending", [".changelog", ".zip"])
def test_a_state_that_was_cut_is_named(place: Path, ending: str) -> None:
    """Spark does not say which it is."""
    state = place / "state" / "0" / "0"
    file = max(state.glob(f"*{ending}"), default=state / f"4{ending}")
    for cut in (b"",) if ending == ".changelog" else (b"", b"PK\x03\x04 and no more"):
        file.write_bytes(cut)
        with pytest.raises(
            BrokenFileError, match=rf"state/0/0/{file.name}, which Spark wrote, is broken, it is empty or"
        ):
            planned_batch(place)
