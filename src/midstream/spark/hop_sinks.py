"""Sinks of hopping queries: complete answers replace the one before, changes are added or applied.

Contract: `write(answers, batch)` gets the answers at the hops of a micro-batch, in order, and may be called again with
the same batch number after a crash, with the same answers.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from midstream.kernels.bag import cancel
from midstream.model.errors import SinkError
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.emission import value_order
from midstream.plan.query import DELTA, Emit
from midstream.spark.hop_meeting import HopAnswer
from midstream.spark.sinks import ParquetFolder, folder_of

HOP, QUERY = b"midstream.hop", b"midstream.query"
"""What a file says of the hop its rows are of, and of the query they are from."""
TABLE = "table"
ONLY_APPEND = ("kafka",)
"""Formats that cannot replace what they have."""


class HopSink(Protocol):
    """Takes the answers of each micro-batch."""

    def write(self, answers: Sequence[HopAnswer], batch: int) -> None:
        """Take the answers at the hops of a micro-batch; the same batch may come twice."""


class NewestAnswer:
    """A folder with one Parquet file, `answer.parquet`: the newest complete answer, replaced whole."""

    def __init__(self, folder: Path) -> None:
        self.file = folder_of(folder) / "answer.parquet"

    def write(self, answers: Sequence[HopAnswer], batch: int) -> None:
        """Replace the answer by the last one."""
        if answers:
            replace_file(self.file, pa.Table.from_batches([answers[-1].rows]), {HOP: b"%d" % answers[-1].hop_us})


class ChangeFolder:
    """A folder of Parquet files, one for every hop that changed something; each is there once."""

    def __init__(self, folder: Path) -> None:
        self._folder = ParquetFolder(folder)

    def write(self, answers: Sequence[HopAnswer], batch: int) -> None:
        """Replace the files of a batch."""
        self._folder.write_tables([pa.Table.from_batches([a.rows]) for a in answers if a.rows.num_rows], batch)


class KeptTable:
    """A folder with one Parquet file, `table.parquet`: the answer, kept up to date by its changes, replaced whole.

    Invariant: the file is the answer at the hop it names; changes up to that hop are in it and come to nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder_of(folder) / "table.parquet"
        self._query = b""

    def begin(self, query: str) -> None:
        """Refuse a table that another query keeps up to date."""
        self._query = query.encode()
        told = self._read()
        if told is not None and (told.schema.metadata or {}).get(QUERY) != self._query:
            raise SinkError(f"{self.file} is kept up to date by another query; give this one a folder of its own")

    def write(self, answers: Sequence[HopAnswer], batch: int) -> None:
        """Apply the changes that are not in the table yet."""
        told = self._read()
        upto_us = None if told is None else int(told.schema.metadata[HOP])
        fresh = [a for a in answers if upto_us is None or a.hop_us > upto_us]
        if not fresh:
            return
        changes = pa.Table.from_batches([a.rows for a in fresh])
        names = [n for n in changes.column_names if n not in ("_time", "_version", "_hop", "_sign")]
        table = changes.schema.empty_table().select(names) if told is None else told.replace_schema_metadata()
        applied = self._applied(table, changes.select(names), changes.column("_sign").combine_chunks())
        replace_file(self.file, applied, {HOP: b"%d" % fresh[-1].hop_us, QUERY: self._query})

    def _applied(self, table: pa.Table, changes: pa.Table, signs: pa.Array) -> pa.Table:
        coming, going = pc.greater(signs, 0), pc.less(signs, 0)
        new = pa.concat_tables([table, changes.filter(coming)]).combine_chunks()
        old = changes.filter(going).combine_chunks()
        coding, types = Coding(), new.schema.types
        codes = [_codes(coding, part) for part in (new, old)]
        no_ends = np.empty(0, np.int64)
        kept, missing = cancel(codes[0], no_ends, codes[1], no_ends, False)
        if missing.any():
            raise SinkError(f"{self.file} does not hold what is to go; it was changed by someone else")
        left = codes[0][kept]
        return new.filter(pa.array(kept)).take(pa.array(value_order(coding, left, types, None)))

    def _read(self) -> pa.Table | None:
        try:
            return pq.read_table(self.file) if self.file.is_file() else None
        except (pa.ArrowException, OSError) as error:
            raise SinkError(f"cannot read {self.file}: {error}") from error


class HopFunction:
    """Answers handed to a function of (DataFrame, batch number), one call for every hop, also where it is empty."""

    def __init__(self, spark: SparkSession, function: Callable[[DataFrame, int], Any]) -> None:
        self._spark = spark
        self._function = function

    def write(self, answers: Sequence[HopAnswer], batch: int) -> None:
        """Call the function hop by hop."""
        for answer in answers:
            self._function(self._spark.createDataFrame(pa.Table.from_batches([answer.rows])), batch)


class HopFormat:
    """Answers in any format Spark can write: the newest complete one instead of the last, changes behind the others."""

    def __init__(self, spark: SparkSession, kind: str, options: dict[str, str], emit: Emit) -> None:
        self._spark = spark
        self._kind = kind
        self._options = options
        self._delta = emit == DELTA

    def write(self, answers: Sequence[HopAnswer], batch: int) -> None:
        """Write the newest answer, or all changes; on the console, every hop."""
        if self._kind == "console":
            for answer in answers:
                print(f"--- batch {batch}, hop {answer.hop_us}")
                self._frame([answer]).show(int(self._options.get("numRows", 20)), truncate=False)
            return
        chosen = [a for a in answers if a.rows.num_rows] if self._delta else answers[-1:]
        if chosen:
            writer = self._frame(chosen).write.format(self._kind).options(**self._options)
            writer.mode("append" if self._delta else "overwrite").save()

    def _frame(self, answers: Sequence[HopAnswer]) -> DataFrame:
        return self._spark.createDataFrame(pa.Table.from_batches([a.rows for a in answers]))


def hop_sink_of(sink: Any, emit: Emit, spark: SparkSession) -> HopSink:
    """Make a sink for what a hopping query emits: a folder, a function, or a format with options."""
    if callable(sink) and not isinstance(sink, str | Path):
        return HopFunction(spark, sink)
    if isinstance(sink, str | Path):
        return ChangeFolder(Path(sink)) if emit == DELTA else NewestAnswer(Path(sink))
    if not isinstance(sink, dict) or not isinstance(sink.get("format"), str):
        raise SinkError("a sink is a folder, a function of (DataFrame, batch number), or {'format': ..., options}")
    kind, options = sink["format"], {str(k): str(v) for k, v in sink.items() if k != "format"}
    if kind in ("folder", TABLE) and "path" not in options:
        raise SinkError(f"a {kind} needs a path")
    if kind == TABLE and emit != DELTA:
        raise SinkError(
            "a table is kept up to date by changes, and the query emits complete answers: ask for EMIT DELTA, "
            "or give a folder, which holds the newest answer"
        )
    if kind in ONLY_APPEND and emit != DELTA:
        raise SinkError(f"{kind} only takes more rows, and a complete answer replaces the last: ask for EMIT DELTA")
    if kind == TABLE:
        return KeptTable(Path(options["path"]))
    return hop_sink_of(options["path"], emit, spark) if kind == "folder" else HopFormat(spark, kind, options, emit)


def replace_file(file: Path, table: pa.Table, told: dict[bytes, bytes]) -> None:
    """Replace a Parquet file whole; it tells something of itself."""
    pending = file.with_name(f".{file.name}.pending")
    try:
        pq.write_table(table.replace_schema_metadata(told), pending)
        os.replace(pending, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            pending.unlink()
        raise SinkError(f"cannot write {file}: {error.strerror}") from error


def _codes(coding: Coding, table: pa.Table) -> np.ndarray:
    out = np.empty((table.num_rows, table.num_columns), np.int64)
    for k, column in enumerate(table.columns):
        out[:, k] = coding.encode(column.combine_chunks())
    return out
