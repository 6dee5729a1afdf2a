"""Merger log: the result merger of a live query, micro-batch by micro-batch, in a folder of its checkpoint.

N-NAME.arrow   a table that is held back after micro-batch N
N.json         plain values, and which tables there are: what is here counts
N/             the same as an older release wrote it: merger.json, NAME.arrow
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.engine.results.merger import ResultMerger
from midstream.engine.world import World
from midstream.live.blobs import to_blob
from midstream.local.disk import THIS_MACHINE
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import document, stream_table, whole
from midstream.model.names import is_name, numbers_among
from midstream.plan.plan import Plan

KEPT = 3
"""States that are kept: Spark may run the last micro-batch again."""


class MergerLog:
    """The states of a merger. Invariant: the tables that a state names are there."""

    def __init__(
        self, folder: Path, labels: tuple[int, ...], plan_of: Callable[[int], Plan], world: World = THIS_MACHINE
    ) -> None:
        self.folder = folder
        self._labels = labels
        self._plan_of = plan_of
        self._world = world
        self._at: tuple[int, ResultMerger] | None = None
        self._numbers: list[int] | None = None
        """The states that are there, in order; None: nobody has looked."""

    def before(self, batch: int) -> ResultMerger:
        """Return the merger as it was before a micro-batch."""
        if self._at is not None and self._at[0] == batch - 1:
            return self._at[1]
        # Since somebody looked, a driver that was believed dead may have gone on by a micro-batch.
        self._numbers = None
        merger = ResultMerger(self._labels, self._plan_of)
        number = max((n for n in self._found() if n < batch), default=None)
        if number is not None:
            state, held = self._read(number)
            with whole(self._state(number)):
                merger.load(state, held)
        return merger

    def _read(self, number: int) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        files, old = self._world.files, self.folder / f"{number:08d}"
        if files.exists(self._state(number)):
            state = self._state(number)
            plain = document(state, files.read(state))
            with whole(state):
                merger, names = plain["merger"], [str(name) for name in plain["held"]]
            if not all(map(is_name, names)):
                raise MidstreamError(f"{state} was tampered with: it names {names!r}")
            tables = {}
            for name in names:
                file = self._table(number, name)
                with whole(file):
                    tables[name] = stream_table(file, files.read(file))
            return merger, tables
        names = [name.removesuffix(".arrow") for name in files.names(old) if name.endswith(".arrow")]
        tables = {name: pa.ipc.open_file(files.read(old / f"{name}.arrow")).read_all() for name in names}
        return json.loads(files.read(old / "merger.json")), tables

    def after(self, batch: int, merger: ResultMerger, write: bool) -> None:
        """Remember the merger as it is after a micro-batch; durably when something is going on."""
        self._at = (batch, merger)
        if not write:
            return
        plain, held = merger.to_plain()
        files = self._world.files
        files.make_folder(self.folder)
        for name, table in held.items():
            # Whole: the micro-batch may be run again, and the state of the last time names the same tables.
            self._world.put(self._table(batch, name), to_blob(table))
            reach("table held back")
        state = json.dumps({"merger": plain, "held": sorted(held)}).encode()
        self._world.put(self._state(batch), state, point=lambda: reach("merger pending"))
        reach("merger noted")
        self._numbers = sorted({*self._found(), batch})
        self._remove(self._numbers[:-KEPT])
        self._numbers = self._numbers[-KEPT:]

    def _remove(self, numbers: list[int]) -> None:
        files = self._world.files
        for number in numbers:
            files.remove(self._state(number))
            files.remove_folder(self.folder / f"{number:08d}")
        gone = tuple(f"{number:08d}-" for number in numbers)
        for name in files.names(self.folder) if gone else ():
            if name.startswith(gone):
                files.remove(self.folder / name)

    def _found(self) -> list[int]:
        if self._numbers is None:
            names = self._world.files.names(self.folder)
            self._numbers = sorted({*numbers_among(names, ".json", 8), *numbers_among(names, "", 8)})
        return self._numbers

    def _state(self, number: int) -> Path:
        return self.folder / f"{number:08d}.json"

    def _table(self, number: int, name: str) -> Path:
        return self.folder / f"{number:08d}-{name}.arrow"
