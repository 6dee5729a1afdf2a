"""Durable state of another format is refused, in a sentence that says what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from engine.memory_store import MemoryStore

from midstream.engine.bucket.chunks import Chunk, HeldChunk
from midstream.engine.bucket.state import BucketState, VersionState
from midstream.engine.results.merger import ResultMerger
from midstream.engine.run.contract import StageChunk
from midstream.lang.sql import parse_query
from midstream.live.checkpoint import Checkpoint
from midstream.live.repository import Catalog, VersionFiles, read_catalog, write_catalog
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import parse_tree

STREAM = StreamSchema("s", pa.schema([("ts", pa.int64()), ("k", pa.int64())]), "ts")


def plan_of(number: int = 1) -> Plan:
    query = parse_query("SELECT k FROM s", [STREAM])
    return ordered_plan(query, parse_tree("s", query.aliases))


def bucket(folder: Path, found: int | None) -> None:
    """Write the state of a bucket, and read it as if it had another format."""
    store = MemoryStore()
    BucketState.new(True).write(store)
    assert store.head is not None
    store.head = json.dumps({**json.loads(store.head), "format": found})
    BucketState.read(store, True)


def merger(folder: Path, found: int | None) -> None:
    plain, held = ResultMerger((0,), plan_of).to_plain()
    ResultMerger((0,), plan_of).load({**plain, "format": found}, held)


def catalog(folder: Path, found: int | None) -> None:
    write_catalog(folder, Catalog((STREAM,), ("s",), {}, plan_of()))
    _rewrite(folder / "catalog.json", found)
    read_catalog(folder)


def version(folder: Path, found: int | None) -> None:
    number = VersionFiles(folder).add("SELECT k FROM s", plan_of())
    _rewrite(folder / f"{number:04d}.version", found)
    VersionFiles(folder).load(number, {})


def checkpoint(folder: Path, found: int | None) -> None:
    Checkpoint(folder).identify("q", plan_of(), 1, (0,), ())
    _rewrite(folder / "midstream.json", found)
    Checkpoint(folder).identify("q", plan_of(), 1, (0,), ())


def _rewrite(file: Path, found: int | None) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": found}))


KNOWN = {bucket: 4, merger: 2, catalog: 1, version: 1, checkpoint: 1}
"""The format that this release writes and reads."""


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize(
    ("found", "do"), [(None, "new checkpoint"), (0, "new checkpoint"), (99, "release that wrote it")]
)
def test_another_format_is_refused(
    kind: Callable[[Path, int | None], None], found: int | None, do: str, tmp_path: Path
) -> None:
    said = rf"written in format {found}, and this release reads format {KNOWN[kind]}; .*{do}"
    with pytest.raises(MidstreamError, match=said):
        kind(tmp_path, found)


@pytest.mark.parametrize("kind", KNOWN)
def test_what_was_written_is_read(kind: Callable[[Path, int | None], None], tmp_path: Path) -> None:
    kind(tmp_path, KNOWN[kind])


@pytest.mark.parametrize("back", [1, 2])
def test_formats_before_are_read(tmp_path: Path, back: int) -> None:
    bucket(tmp_path, KNOWN[bucket] - back)


def test_chunks_as_older_formats_have_them() -> None:
    plain = {"chunks": {"0": [{"number": 3, "rows": 5, "latest_us": 9}]}, "waiting": {}, "held": [2], "stages": {}}
    plain["stages"] = {"0": {"chunks": [[1, 7]], "counters": {}, "first": 0, "end": 7}}
    state = VersionState.of(plain)
    assert state.chunks == {0: [Chunk(3, 5, 9)]}
    assert state.held == [HeldChunk(2)]
    assert state.stages[0].chunks == [StageChunk(1, 7)]
