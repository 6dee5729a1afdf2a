"""Merger log: the result merger of a live query, micro-batch by micro-batch, in a folder of its checkpoint."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from midstream.engine.results.merger import ResultMerger
from midstream.local.files import read_table, write_table
from midstream.model.failpoint import reach
from midstream.plan.plan import Plan

KEPT = 3
"""States that are kept: Spark may run the last micro-batch again."""


class MergerLog:
    """The states of a merger. A state is a folder: plain values, and a file for each table that is held back."""

    def __init__(self, folder: Path, labels: tuple[int, ...], plan_of: Callable[[int], Plan]) -> None:
        self.folder = folder
        self._labels = labels
        self._plan_of = plan_of
        self._at: tuple[int, ResultMerger] | None = None

    def before(self, batch: int) -> ResultMerger:
        """Return the merger as it was before a micro-batch."""
        if self._at is not None and self._at[0] == batch - 1:
            return self._at[1]
        merger = ResultMerger(self._labels, self._plan_of)
        for number in sorted(self._numbers(), reverse=True):
            if number < batch:
                state = self.folder / f"{number:08d}"
                held = {file.stem: read_table(file) for file in state.glob("*.arrow")}
                merger.load(json.loads((state / "merger.json").read_text(encoding="utf-8")), held)
                break
        return merger

    def after(self, batch: int, merger: ResultMerger, write: bool) -> None:
        """Remember the merger as it is after a micro-batch; durably when something is going on."""
        self._at = (batch, merger)
        if not write:
            return
        plain, held = merger.to_plain()
        pending = self.folder / f".{batch:08d}.{os.getpid()}.pending"
        pending.mkdir(parents=True, exist_ok=True)
        for name, table in held.items():
            write_table(pending / f"{name}.arrow", table)
        (pending / "merger.json").write_text(json.dumps(plain), encoding="utf-8")
        state = self.folder / f"{batch:08d}"
        shutil.rmtree(state, ignore_errors=True)
        reach("merger pending")
        os.replace(pending, state)
        for number in sorted(self._numbers())[:-KEPT]:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self.folder / f"{number:08d}")

    def _numbers(self) -> list[int]:
        found = self.folder.glob("[0-9]*") if self.folder.is_dir() else ()
        return [int(f.name) for f in found if (f / "merger.json").is_file()]
