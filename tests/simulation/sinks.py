"""Sinks of the simulation: a folder of results, a kept table, and results keyed by the number of their micro-batch."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.engine.results.merger import Departure
from midstream.engine.results.output import ORDER
from midstream.engine.world import World
from midstream.live.blobs import from_blob, to_blob
from midstream.live.kept_table import KeptTable
from midstream.live.lines import RESULT, Lines
from midstream.live.result_folder import ResultFolder, in_order
from midstream.live.sink import BatchSink, Owner, together
from simulation.scripts import FOLDER, TABLE


class Numbers:
    """What a user's function may do that is called with results and a number: keep them under that number."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world

    def begin(self, owner: Owner) -> None:
        self.world.files.make_folder(self.folder)

    def fence(self, first: int, check_newest: Callable[[], None]) -> None:
        """What is written again under a number is the same."""

    def write_lines(self, lines: Lines, schema: pa.Schema, batch: int, ordered: bool) -> list[Any]:
        collected = lines.collect()
        tables = [from_blob(line.blob) for line in collected if line.kind == RESULT]
        names = [*schema.names, *([ORDER] if ordered else [])]
        tables = [table.select(names).replace_schema_metadata() for table in tables]
        if tables:
            self._put(batch, in_order(tables).drop_columns([ORDER]) if ordered else pa.concat_tables(tables))
        return [line for line in collected if line.kind != RESULT]

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        if departures:
            self._put(batch, together([d.rows for d in departures]))

    def _put(self, batch: int, table: pa.Table) -> None:
        self.world.put(self.folder / f"{batch:08d}.arrow", to_blob(table.combine_chunks()))


def sink_for(kind: str, folder: Path, world: World) -> BatchSink:
    """Return a sink of a kind."""
    if kind == FOLDER:
        return ResultFolder(folder, world)
    return KeptTable(folder, world) if kind == TABLE else Numbers(folder, world)
