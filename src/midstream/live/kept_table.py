"""A kept table: the answer of a query that hops, kept up to date by its changes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.engine.results.merger import Departure
from midstream.engine.world import World
from midstream.live.kept_answer import KeptAnswer
from midstream.live.lines import Lines
from midstream.live.owned_folder import remove_pending, take_folder
from midstream.live.result_folder import HOP, replace_answer
from midstream.live.sink import Owner, anybody
from midstream.local.disk import THIS_MACHINE
from midstream.local.files import writing
from midstream.model.errors import SinkError
from midstream.model.format import check_format, whole

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
        before = KeptAnswer()
        if held is not None:
            said = held.schema.metadata
            before = KeptAnswer(held, int(said.get(VERSION, b"1")), int(said[HOP]))
        after = before.after(departures, self.file)
        if after is not before and after.upto_us is not None:
            told = {FORMATTED: FORMAT, HOP: after.upto_us, VERSION: after.version, BATCH: batch}
            said = {key: b"%d" % value for key, value in told.items()} | {QUERY: self._query}
            replace_answer(self.file, after.table, said, self._world, self._check_newest)

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
