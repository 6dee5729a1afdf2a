"""Durable state of another format is refused, in a sentence that says what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from engine.memory_store import MemoryStore

from midstream.engine.bucket.state import BucketState
from midstream.engine.results.merger import ResultMerger
from midstream.lang.sql import parse_query
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import parse_tree
from midstream.spark.checkpoint import Checkpoint
from midstream.spark.repository import Catalog, add_version, load_version, read_catalog, write_catalog

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
    number = add_version(folder, "SELECT k FROM s", plan_of())
    _rewrite(folder / f"{number:04d}.version", found)
    load_version(folder, number, {})


def checkpoint(folder: Path, found: int | None) -> None:
    Checkpoint(folder).identify("q", plan_of(), 1, (0,))
    _rewrite(folder / "midstream.json", found)
    Checkpoint(folder).identify("q", plan_of(), 1, (0,))


def _rewrite(file: Path, found: int | None) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": found}))


KNOWN = {bucket: 3, merger: 2, catalog: 1, version: 1, checkpoint: 1}
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


def test_the_format_before_is_read(tmp_path: Path) -> None:
    bucket(tmp_path, KNOWN[bucket] - 1)
