"""Result folder: results as Parquet, a file per micro-batch that appears whole, by one rename, and never changes.

    folder/_midstream.json          whose results these are
    folder/batch-00000012.parquet   the results of micro-batch 12; one without results has no file
    folder/answer.parquet           the newest whole answer of a query that hops

    workers ──▶ .pending-.../part-*.arrow ──▶ driver: one file, synced, renamed ──▶ counted by Spark's commit
    driver: results that met ─────────────────┘

A micro-batch that comes again finds its file there and leaves it as it is. So whoever lists the folder sees each
micro-batch whole or not at all, and what has been seen stays.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from midstream.engine.results.merger import Departure
from midstream.engine.results.output import ORDER
from midstream.engine.world import World
from midstream.live.blobs import from_blob
from midstream.live.lines import RESULT, Lines, reports_of
from midstream.live.owned_folder import PENDING_FOLDER, remove_pending, take_folder
from midstream.live.sink import Owner, anybody, together
from midstream.local.disk import THIS_MACHINE
from midstream.local.files import writing
from midstream.model.errors import SinkError
from midstream.model.failpoint import reach
from midstream.model.format import whole

ANSWER = "answer.parquet"
OWN = ("_version", "_hop", "_sign")
"""Columns that have few values in a micro-batch."""
HOP = b"midstream.hop"
"""What a file says of the hop its rows are of."""


class ResultFolder:
    """A folder of Parquet. Invariant: whatever a reader finds is whole, and stays."""

    def __init__(self, folder: Path, world: World = THIS_MACHINE) -> None:
        self.folder = folder.absolute()
        self._world = world.for_readers()
        self._check_newest = anybody
        with writing(folder):
            self._world.files.make_folder(self.folder)

    def begin(self, owner: Owner) -> None:
        """Take the folder for a query; refuse one of another query."""
        take_folder(self.folder, owner, self._world, lambda: not owner.resumed and self._has_results())

    def fence(self, first: int, check_newest: Callable[[], None]) -> None:
        """Keep earlier runs out, and remove what they have left; refuse results that this run is yet to plan."""
        self._check_newest = check_newest
        newest = max(filter(is_batch, self._world.files.names(self.folder)), default=None)
        number = -1 if newest is None else int(newest.removesuffix(".parquet").split("-")[1])
        if number >= first:
            raise SinkError(
                f"{self.folder} has results of micro-batch {number}, and the checkpoint is older: take away those from "
                f"{first} on, they come again, or start with a new checkpoint and another folder"
            )
        remove_pending(self.folder, self._world)

    def _has_results(self) -> bool:
        return any(is_result(name) for name in self._world.files.names(self.folder))

    def write_lines(self, lines: Lines, schema: pa.Schema, batch: int, ordered: bool) -> list[Any]:
        """Write the results of a micro-batch; unordered ones are taken from the workers as files."""
        if ordered:
            return self._write_ordered(lines, schema, batch)
        files, pending = self._world.files, self._pending(batch)
        others = lines.written(PartFiles(str(pending), schema, self._world))
        reach("sink pending")
        parts = sorted(name for name in files.names(pending) if name.startswith("part-"))
        found = (b for name in parts for b in pa.ipc.open_stream(files.read(pending / name)))
        self._publish(schema, found, batch, sum(r["rows_out"] for r in reports_of(others)))
        files.remove_folder(pending)
        return others

    def _write_ordered(self, lines: Lines, schema: pa.Schema, batch: int) -> list[Any]:
        collected = lines.collect()
        tables = [from_blob(bytes(line.blob)) for line in collected if line.kind == RESULT]
        tables = [table.select([*schema.names, ORDER]).replace_schema_metadata() for table in tables]
        if tables:
            self._publish(schema, in_order(tables).drop_columns([ORDER]).to_batches(), batch)
        return [line for line in collected if line.kind != RESULT]

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Write what leaves, and the newest whole answer in place of the one before."""
        whole = [d for d in departures if d.complete]
        if whole:
            answer = [d.rows for d in whole if d.hop_us == whole[-1].hop_us]
            said = {HOP: b"%d" % (whole[-1].hop_us or 0)}
            replace_answer(self.folder / ANSWER, together(answer), said, self._world, self._check_newest)
        others = [d.rows for d in departures if not d.complete and d.rows.num_rows]
        if others:
            table = together(others)
            self._publish(table.schema, table.to_batches(), batch)

    def _pending(self, batch: int) -> Path:
        """Make a folder that no other attempt at a batch knows, be it one that lives on."""
        pending = self.folder / f"{PENDING_FOLDER}{batch:08d}-{self._world.names.new()[:12]}"
        with writing(self.folder):
            self._world.files.make_folder(pending)
        return pending

    def _publish(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], batch: int, expected: int | None = None
    ) -> None:
        """Let a batch be seen, whole; one that is there already stays as it is.

        `expected` is how many rows those say that have written it, where others have: a listing may lack a file.
        """
        held, writer, rows = pa.BufferOutputStream(), None, 0
        for part in batches:
            if part.num_rows:
                writer = writer or pq.ParquetWriter(held, schema, use_dictionary=repeating(schema))
                writer.write_batch(part)
                rows += part.num_rows
        if writer is not None:
            writer.close()
        if expected not in (None, rows):
            raise SinkError(
                f"of micro-batch {batch} {rows:,} results are found in {self.folder}, and {expected:,} were written: "
                "nothing is lost, start the query again and the micro-batch runs once more"
            )
        there = self._there(batch)
        if there is not None and there != rows:
            raise SinkError(
                f"{self.folder} has micro-batch {batch} with {there} rows, and now it has {rows}: "
                "the checkpoint is not the one that wrote this folder"
            )
        if there is None and rows:
            with writing(self.folder):
                data = held.getvalue()
                self._world.put(self._file(batch), data, point=self._before_rename)
            reach("results appeared")

    def _before_rename(self) -> None:
        reach("sink half written")
        self._check_newest()

    def _there(self, batch: int) -> int | None:
        """Return how many rows of a batch can be seen; None: it is not there."""
        files = self._world.files
        found = [self._file(batch)] if files.exists(self._file(batch)) else []
        if files.exists(self.folder / f"batch-{batch:08d}-0000.parquet"):  # as an older release wrote it
            found = [self.folder / n for n in files.names(self.folder) if n.startswith(f"batch-{batch:08d}-")]
        rows = 0
        for file in found:
            with whole(file, "remove it and start the query again: its micro-batch is then written again"):
                rows += int(pq.ParquetFile(pa.BufferReader(files.read(file))).metadata.num_rows)
        return rows if found else None

    def _file(self, batch: int) -> Path:
        return self.folder / f"batch-{batch:08d}.parquet"


@dataclass(frozen=True)
class PartFiles:
    """Writes the results of one partition to an Arrow file, where they are, and hands on everything else."""

    folder: str
    schema: pa.Schema
    world: World

    def __call__(self, batches: Iterator[pa.RecordBatch], part: int) -> Iterator[pa.RecordBatch]:
        """Write one partition."""
        held, writer = pa.BufferOutputStream(), None
        for batch in batches:
            results = pc.equal(batch.column("kind"), RESULT)
            for blob in batch.column("blob").filter(results):
                for rows in from_blob(blob.as_buffer()).to_batches():
                    writer = writer or pa.ipc.new_stream(held, self.schema)
                    writer.write_batch(rows.select(self.schema.names).replace_schema_metadata())
            yield batch.filter(pc.invert(results))
        if writer is not None:
            writer.close()
            # Another attempt at this partition may be writing too: each has its own file until it is whole.
            file = Path(self.folder) / f"part-{part:05d}.arrow"
            pending = file.with_name(f".{file.name}.{self.world.names.new()[:8]}")
            self.world.files.write(pending, held.getvalue(), lasting=False)
            reach("part pending")
            self.world.files.move(pending, file, lasting=False)
            reach("part written")


_BATCH = re.compile(r"batch-[0-9]{8,18}(-[0-9]{4})?\.parquet")
"""With a second number: as an older release wrote it."""


def is_batch(name: str) -> bool:
    """Return whether a name in a folder is one of the results of a micro-batch.

    >>> is_batch("batch-00000012.parquet"), is_batch("batch-00000012-0000.parquet"), is_batch("batch-notes.txt")
    (True, True, False)
    """
    return _BATCH.fullmatch(name) is not None


def is_result(name: str) -> bool:
    """Return whether a name in a folder is one of results."""
    return is_batch(name) or name == ANSWER


def in_order(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the results of several buckets as one table, in max order."""
    table = pa.concat_tables(tables).combine_chunks()
    if not table.num_rows:
        return table
    places = table.column(ORDER).combine_chunks().flatten().to_numpy().reshape(table.num_rows, -1)
    return table.take(pa.array(np.lexsort(places.T[::-1])))


def repeating(schema: pa.Schema) -> list[str]:
    """Return the columns whose values are likely to come again, which are written once.

    To look for such values among numbers takes three quarters of the time that a file takes, mostly in vain.
    """
    return [f.name for f in schema if f.name in OWN or not pa.types.is_primitive(f.type)]


def parquet(table: pa.Table) -> pa.Buffer:
    """Return a table as Parquet."""
    held = pa.BufferOutputStream()
    pq.write_table(table, held, use_dictionary=repeating(table.schema))
    return held.getvalue()


def replace_answer(
    file: Path, table: pa.Table, said: dict[bytes, bytes], world: World, check_newest: Callable[[], None]
) -> None:
    """Replace the Parquet file of an answer whole, unless there is a newer run; its metadata says something of it."""

    def before_rename() -> None:
        reach("answer pending")
        check_newest()

    with writing(file):
        data = parquet(table.replace_schema_metadata(said))
        world.put(file, data, point=before_rename)
        reach("answer replaced")
