"""A kept table: the answer of a query that hops, kept up to date by its changes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from midstream.engine.results.merger import Departure
from midstream.engine.world import World
from midstream.kernels.bag import cancel
from midstream.live.lines import Lines
from midstream.live.owned_folder import remove_pending, take_folder
from midstream.live.result_folder import HOP, replace_answer
from midstream.live.sink import Owner, anybody
from midstream.local.disk import THIS_MACHINE
from midstream.local.files import writing
from midstream.model.errors import SinkError
from midstream.model.format import check_format, whole
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.emission import value_order

TABLE = "table.parquet"
FORMAT = 1
"""The form of a kept table."""
FORMATTED, QUERY, VERSION = b"midstream.format", b"midstream.query", b"midstream.version"
"""What a file says of its format, of the query its rows are from, and of its version."""
BATCH = b"midstream.batch"
"""And of the micro-batch that has written it; an older release did not say it."""


class KeptTable:
    """A folder with one Parquet file, `table.parquet`: the answer, kept up to date by its changes, replaced whole.

    Invariant: the file is the answer of a version at the hop it names; changes up to that hop are in it and come to
    nothing. A newer version begins with an empty answer.
    """

    def __init__(self, folder: Path, world: World = THIS_MACHINE) -> None:
        self.file = folder / TABLE
        self._world = world.for_readers()
        self._query = b""
        self._check_newest = anybody
        with writing(folder):
            self._world.files.make_folder(folder)

    def begin(self, owner: Owner) -> None:
        """Refuse a table that another query keeps up to date."""
        self._query = owner.identity.encode()
        self._check(self._read())
        take_folder(self.file.parent, owner, self._world, lambda: False)

    def fence(self, first: int, check_newest: Callable[[], None]) -> None:
        """Keep earlier runs out: one that has read the table before this one has changed it does not replace it."""
        self._check_newest = check_newest
        held = self._read()
        said = {} if held is None else held.schema.metadata or {}
        if int(said.get(BATCH, b"-1")) >= first:
            raise SinkError(
                f"{self.file} was written in micro-batch {int(said[BATCH])}, and the checkpoint is older, it goes on "
                f"with {first}: restore the table of that time, or start with a new checkpoint and another folder"
            )
        remove_pending(self.file.parent, self._world)

    def _check(self, held: pa.Table | None) -> None:
        if held is not None and (held.schema.metadata or {}).get(QUERY) != self._query:
            raise SinkError(f"{self.file} is kept up to date by another query; give this one a folder of its own")

    def write_lines(self, lines: Lines, schema: pa.Schema, batch: int, ordered: bool) -> list[Any]:
        """Refuse rows without a hop: they do not change an answer."""
        raise SinkError(f"{self.file} is kept up to date by answers at hops, and the query emits none")

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Apply the changes that are not in the table yet."""
        held = self._read()
        self._check(held)
        said = {} if held is None else held.schema.metadata
        newest, upto_us = int(said.get(VERSION, b"1")), None if held is None else int(said[HOP])
        table = held
        for (hop_us, of), pieces in _answers(departures).items():
            version = of or newest
            if version < newest or (version == newest and upto_us is not None and hop_us <= upto_us):
                continue
            rows = pa.Table.from_batches(pieces)
            names = [n for n in rows.column_names if n not in ("_time", "_version", "_hop", "_sign")]
            if table is None or version > newest:
                table = rows.schema.empty_table().select(names)
            table = self._applied(
                table.replace_schema_metadata(), rows.select(names), rows.column("_sign").combine_chunks()
            )
            newest, upto_us = version, hop_us
        if table is not None and table is not held and upto_us is not None:
            said = {FORMATTED: b"%d" % FORMAT, HOP: b"%d" % upto_us, QUERY: self._query, VERSION: b"%d" % newest}
            said |= {BATCH: b"%d" % batch}
            replace_answer(self.file, table, said, self._world, self._check_newest)

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
        if not self._world.files.exists(self.file):
            return None
        with whole(self.file, "restore it from a copy, or start with a new checkpoint and another folder"):
            table = pq.read_table(pa.BufferReader(self._world.files.read(self.file)))
            said = table.schema.metadata or {}
            found = int(said.get(FORMATTED, b"1"))
            if QUERY in said and not (said[HOP].lstrip(b"-").isdigit() and said.get(BATCH, b"0").isdigit()):
                raise ValueError(HOP)
        check_format(f"{self.file}", found, FORMAT)
        return table


def _answers(departures: Sequence[Departure]) -> dict[tuple[int, int], list[pa.RecordBatch]]:
    """Return the answers by hop and version: two versions may answer one hop, and an answer may come in pieces.

    An empty one is of version 0: it does not say of which.
    """
    found: dict[tuple[int, int], list[pa.RecordBatch]] = {}
    for departure in departures:
        assert departure.hop_us is not None, "an answer at a hop"
        versions = departure.rows.column("_version")
        for version in versions.unique().to_pylist() or [0]:
            rows = departure.rows.filter(pc.equal(versions, version))
            found.setdefault((departure.hop_us, version), []).append(rows)
    return found


def _codes(coding: Coding, table: pa.Table) -> npt.NDArray[np.int64]:
    out = np.empty((table.num_rows, table.num_columns), np.int64)
    for k, column in enumerate(table.columns):
        out[:, k] = coding.encode(column.combine_chunks())
    return out
