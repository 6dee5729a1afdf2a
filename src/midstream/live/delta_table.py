"""Delta table: results in a table of Delta Lake, a commit per micro-batch that says which one it is.

    workers ──▶ results-*.parquet in the table's folder ─┐ what each file holds
    driver: results that met ──▶ one more ───────────────┴──▶ one commit: files, and (query, micro-batch)
                                                                   ──▶ counted by Spark's commit

A reader sees a micro-batch whole or not at all. One that comes again finds its number in the table and is passed over;
of two drivers that commit the same one, the table takes one. Files that no commit names are nobody's: `VACUUM`.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from midstream.engine.results.merger import Departure
from midstream.engine.results.output import ORDER
from midstream.engine.world import World
from midstream.live.blobs import from_blob
from midstream.live.kept_answer import SAID_OF_ROWS, KeptAnswer
from midstream.live.lines import FILE, RESULT, Lines
from midstream.live.result_folder import in_order
from midstream.live.sink import Owner, anybody, together
from midstream.local.disk import THIS_MACHINE
from midstream.local.files import local_folder, writing
from midstream.model.errors import SinkError
from midstream.model.failpoint import reach

QUERY = "midstream.query"
"""The property of a table that says which query made it."""
Mode = Literal["append", "overwrite"]


class DeltaResults:
    """A table of Delta Lake in a folder. Invariant: its newest commit of a query names the last micro-batch it has.

    Results of each row, and changes, are added to the table; a whole answer takes the place of the last one. With
    `upsert` the table is the answer, kept up to date by the changes of a query that hops.
    """

    def __init__(self, folder: Path, schema: pa.Schema, upsert: bool = False, world: World = THIS_MACHINE) -> None:
        self.folder = folder.absolute()
        self._upsert = upsert
        kept = [field for field in schema if not (upsert and field.name in SAID_OF_ROWS)]
        self._schema = check_columns(pa.schema(kept), self.folder)
        self._world = world.for_readers()
        self._check_newest = anybody
        self._app = ""

    def begin(self, owner: Owner) -> None:
        """Make the table, or take one that is there; refuse one of another query."""
        self._app = f"midstream-{owner.identity}"
        with writing(self.folder):
            self._world.files.make_folder(self.folder)
        try:
            table = DeltaTable(self.folder)
        except TableNotFoundError:
            if self._world.files.names(self.folder):
                raise SinkError(
                    f"{self.folder} has other files and no Delta table; give the query an empty folder"
                ) from None
            with self._one_sentence():
                made = {QUERY: owner.identity}
                DeltaTable.create(self.folder, self._schema, configuration=made, raise_if_key_not_exists=False)
            table = DeltaTable(self.folder)
        known = table.metadata().configuration.get(QUERY)
        if known not in (None, owner.identity) or (self._upsert and known is None):
            of = "has other rows" if known is None else "belongs to another query"
            raise SinkError(f"the Delta table {self.folder} {of}; give this query a folder of its own")
        self._widen(table, self._schema)

    def fence(self, first: int, check_newest: Callable[[], None]) -> None:
        """Keep earlier runs out; refuse a table that has micro-batches which this run is yet to plan."""
        self._check_newest = check_newest
        newest = self._said(self._open())[0]
        if newest is not None and newest >= first:
            raise SinkError(
                f"the Delta table {self.folder} has micro-batch {newest}, and the checkpoint is older, it goes on with "
                f"{first}: restore the table of that time, or start with a new checkpoint and another folder"
            )

    def write_lines(self, lines: Lines, schema: pa.Schema, batch: int, ordered: bool) -> list[Any]:
        """Add the results of a micro-batch; unordered ones are written by the workers."""
        if self._upsert:
            raise SinkError(f"{self.folder} is kept up to date by answers at hops, and the query emits none")
        if ordered:
            collected = lines.collect()
            tables = [from_blob(bytes(line.blob)) for line in collected if line.kind == RESULT]
            tables = [table.select([*schema.names, ORDER]).replace_schema_metadata() for table in tables]
            files = [self._written(in_order(tables).drop_columns([ORDER]), batch)] if tables else []
            self._commit(files, batch, schema)
            return [line for line in collected if line.kind != RESULT]
        said = lines.written(TableFiles(str(self.folder), schema, batch, self._world))
        reach("sink pending")
        files = [json.loads(bytes(line.blob)) for line in said if line.kind == FILE]
        self._commit(sorted(files, key=lambda file: str(file["path"])), batch, schema)
        return [line for line in said if line.kind != FILE]

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Add what leaves; put the newest whole answer in the place of the one before."""
        if self._upsert:
            self._write_answer(departures, schema, batch)
            return
        complete = [d for d in departures if d.complete]
        if complete:
            answer = together([d.rows for d in complete if d.hop_us == complete[-1].hop_us])
            self._commit([self._written(answer, batch)], batch, answer.schema, "overwrite")
            return
        others = [d.rows for d in departures if d.rows.num_rows]
        if others:
            rows = together(others)
            self._commit([self._written(rows, batch)], batch, rows.schema)

    def _write_answer(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        table = self._open()
        done, version, upto_us = self._said(table)
        if done is not None and done >= batch:
            return
        before = KeptAnswer()
        if upto_us is not None:
            before = KeptAnswer(_as_emitted(table.to_pyarrow_dataset().to_table(), schema), version, upto_us)
        after = before.after(departures, f"the Delta table {self.folder}")
        if after is not before and after.table is not None:
            self._commit([self._written(after.table, batch)], batch, after.table.schema, "overwrite", after)

    def _written(self, rows: pa.Table, batch: int) -> dict[str, Any]:
        return write_file(self.folder, rows.to_batches(), rows.schema, f"{batch:08d}-driver", self._world)

    def _commit(
        self, files: Sequence[dict[str, Any]], batch: int, schema: pa.Schema, mode: Mode = "append",
        answer: KeptAnswer | None = None,
    ) -> None:  # fmt: skip
        """Let a micro-batch be seen, whole; one that is there already stays as it is."""
        files = [file for file in files if file["rows"]]
        if not files and mode == "append":
            return
        table = self._open()
        done = self._said(table)[0]
        if done is not None and done >= batch:
            return
        self._widen(table, schema)
        now_ms = self._world.clock.now_ns() // 10**6
        added: list[AddAction | RemoveAction] = [
            AddAction(f["path"], f["bytes"], {}, now_ms, True, json.dumps({"numRecords": f["rows"]})) for f in files
        ]
        marks = {self._app: batch}
        if answer is not None and answer.upto_us is not None:
            marks |= {f"{self._app}-hop": answer.upto_us, f"{self._app}-version": answer.version}
        said = [Transaction(app, number) for app, number in marks.items()]
        reach("sink half written")
        self._check_newest()
        with self._one_sentence():
            properties = CommitProperties({"midstream.batch": batch}, app_transactions=said)
            table.create_write_transaction(added, mode, table.schema(), commit_properties=properties)
        self._last()
        reach("results appeared")

    def _last(self) -> None:
        """Let the log outlast a power cut: the library does not see to it."""
        log = self.folder / "_delta_log"
        for name in self._world.files.names(log)[-3:]:
            with contextlib.suppress(OSError):  # a checkpoint of the log that was replaced meanwhile
                self._world.files.sync(log / name)
        self._world.files.sync(log)

    def _widen(self, table: DeltaTable, schema: pa.Schema) -> None:
        """Add the columns that a newer version of the query has; refuse those that have another type."""
        check_columns(schema, self.folder)
        held = {field.name: field for field in table.schema().fields}
        asked = [
            field for field in Schema.from_arrow(schema).fields if not (self._upsert and field.name in SAID_OF_ROWS)
        ]
        for field in asked:
            if field.name in held and held[field.name].type != field.type:
                raise SinkError(
                    f"column '{field.name}' of the Delta table {self.folder} is {_type(held[field.name])}, "
                    f"and the query emits {_type(field)}"
                )
        new = [field for field in asked if field.name not in held]
        if new:
            with self._one_sentence():
                table.alter.add_columns(new)

    def _open(self) -> DeltaTable:
        with self._one_sentence():
            return DeltaTable(self.folder)

    def _said(self, table: DeltaTable) -> tuple[int | None, int, int | None]:
        """Return what the table says of this query: its last micro-batch, and of a kept answer version and hop."""
        batch, hop = table.transaction_version(self._app), table.transaction_version(f"{self._app}-hop")
        return batch, table.transaction_version(f"{self._app}-version") or 1, hop

    @contextlib.contextmanager
    def _one_sentence(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            why = " ".join(str(error).split())
            raise SinkError(f"the Delta table {self.folder} cannot be read or written: {why}") from error


@dataclass(frozen=True)
class TableFiles:
    """Writes the results of one partition into a file of the table, and says what it holds; hands on other lines."""

    folder: str
    schema: pa.Schema
    batch: int
    world: World

    def __call__(self, batches: Iterator[pa.RecordBatch], part: int) -> Iterator[pa.RecordBatch]:
        """Write one partition."""
        found: list[pa.RecordBatch] = []
        lines: pa.Schema | None = None
        for batch in batches:
            results = pc.equal(batch.column("kind"), RESULT)
            for blob in batch.column("blob").filter(results):
                found += from_blob(blob.as_buffer()).select(self.schema.names).replace_schema_metadata().to_batches()
            lines = batch.schema
            yield batch.filter(pc.invert(results))
        if lines is not None and found:
            name = f"{self.batch:08d}-{part:05d}"
            file = write_file(Path(self.folder), found, self.schema, name, self.world)
            reach("part written")
            values = [[-1], [FILE], [json.dumps(file).encode()]]
            yield pa.RecordBatch.from_arrays(
                [pa.array(v, f.type) for v, f in zip(values, lines, strict=True)], schema=lines
            )


def delta_results(schema: pa.Schema, options: dict[str, str]) -> DeltaResults:
    """Make a sink of what a user gives: `path`, and `upsert`; `schema` is the output's."""
    for name in options:
        if name not in ("path", "upsert"):
            raise SinkError(f"a Delta table has no option '{name}'; it has path and upsert")
    if options.get("upsert", "false").lower() not in ("true", "false"):
        raise SinkError(f"upsert is true or false, not {options['upsert']!r}")
    upsert = options.get("upsert", "false").lower() == "true"
    if upsert and "_sign" not in schema.names:
        raise SinkError("a Delta table is kept up to date by a hopping query that emits changes: HOP BY ... EMIT DELTA")
    return DeltaResults(local_folder(options["path"], "the path of a Delta table"), schema, upsert)


def write_file(
    folder: Path, batches: Sequence[pa.RecordBatch], schema: pa.Schema, name: str, world: World
) -> dict[str, Any]:
    """Write rows into a file that no commit names yet; return what it is called, its bytes and its rows."""
    held = pa.BufferOutputStream()
    with pq.ParquetWriter(held, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data, file = held.getvalue(), f"results-{name}-{world.names.new()[:12]}.parquet"
    with writing(folder):
        world.files.write(folder / file, data)
        world.files.sync(folder)
    return {"path": file, "bytes": data.size, "rows": sum(b.num_rows for b in batches)}


def check_columns(schema: pa.Schema, folder: Path) -> pa.Schema:
    """Refuse columns that a Delta table cannot have, by name; return the schema."""
    for field in schema:
        if set(field.name) & set(" ,;{}()\n\t="):
            raise SinkError(
                f"column '{field.name}' cannot be in the Delta table {folder}: its name has a space or one of "
                ", ; { } ( ) =; give it another with AS"
            )
        try:
            Schema.from_arrow(pa.schema([field]))
        except Exception as error:  # the library has no error of its own for it
            raise SinkError(
                f"column '{field.name}' is {field.type}, which a Delta table does not have; CAST it"
            ) from error
    names = [name.lower() for name in schema.names]
    for name in schema.names:
        if names.count(name.lower()) > 1:
            raise SinkError(
                f"a Delta table has one column '{name}', however it is written; give the others names with AS"
            )
    return schema


def _as_emitted(held: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows of the table with the columns of the query, and the types they have when they are emitted."""
    names = [name for name in schema.names if name in held.column_names and name not in SAID_OF_ROWS]
    return held.select(names).cast(pa.schema([schema.field(name).with_nullable(True) for name in names]))


def _type(field: Any) -> str:
    return str(getattr(field.type, "type", field.type))
