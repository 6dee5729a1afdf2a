"""A kept table: the answer of a query that hops, kept up to date by its changes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from midstream.engine.results.merger import Departure
from midstream.kernels.bag import cancel
from midstream.local.files import replace_whole, results_folder, writing
from midstream.model.errors import SinkError
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.emission import value_order

HOP, QUERY, VERSION = b"midstream.hop", b"midstream.query", b"midstream.version"
"""What a file says of the hop its rows are of, of the query they are from, and of its version."""


class KeptTable:
    """A folder with one Parquet file, `table.parquet`: the answer, kept up to date by its changes, replaced whole.

    Invariant: the file is the answer of a version at the hop it names; changes up to that hop are in it and come to
    nothing. A newer version begins with an empty answer.
    """

    def __init__(self, folder: Path) -> None:
        self.file = results_folder(folder) / "table.parquet"
        self._query = b""

    def begin(self, query: str) -> None:
        """Refuse a table that another query keeps up to date."""
        self._query = query.encode()
        held = self._read()
        if held is not None and (held.schema.metadata or {}).get(QUERY) != self._query:
            raise SinkError(f"{self.file} is kept up to date by another query; give this one a folder of its own")

    def write_frame(self, results: DataFrame, batch: int) -> None:
        """Refuse rows without a hop: they do not change an answer."""
        raise SinkError(f"{self.file} is kept up to date by answers at hops, and the query emits none")

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Apply the changes that are not in the table yet."""
        held = self._read()
        said = {} if held is None else held.schema.metadata
        newest, upto_us = int(said.get(VERSION, b"1")), None if held is None else int(said[HOP])
        table = held
        for departure in departures:
            rows = pa.Table.from_batches([departure.rows])
            hop_us = departure.hop_us
            assert hop_us is not None, "an answer at a hop"
            version = rows.column("_version")[0].as_py() if rows.num_rows else newest
            if version < newest or (version == newest and upto_us is not None and hop_us <= upto_us):
                continue
            names = [n for n in rows.column_names if n not in ("_time", "_version", "_hop", "_sign")]
            if table is None or version > newest:
                table = rows.schema.empty_table().select(names)
            table = self._applied(
                table.replace_schema_metadata(), rows.select(names), rows.column("_sign").combine_chunks()
            )
            newest, upto_us = version, hop_us
        if table is not None and table is not held and upto_us is not None:
            said = {HOP: b"%d" % upto_us, QUERY: self._query, VERSION: b"%d" % newest}
            replace_answer(self.file, table, said)

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


def replace_answer(file: Path, table: pa.Table, said: dict[bytes, bytes]) -> None:
    """Replace the Parquet file of an answer whole; its metadata says something of it."""
    table = table.replace_schema_metadata(said)
    with writing(file):
        replace_whole(file, lambda pending: pq.write_table(table, pending), "answer pending")


def _codes(coding: Coding, table: pa.Table) -> npt.NDArray[np.int64]:
    out = np.empty((table.num_rows, table.num_columns), np.int64)
    for k, column in enumerate(table.columns):
        out[:, k] = coding.encode(column.combine_chunks())
    return out
