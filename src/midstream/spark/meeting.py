"""Meeting: where the output of all buckets and versions meets, micro-batch by micro-batch, on the driver.

    results and events of all buckets ──▶ each version in max order ──▶ control manager, merger ──▶ what leaves

Its state is small, but for output that is held back. It is written down after every micro-batch in which something is
going on, so that a micro-batch that comes again after a crash meets the state it met before.
"""

import contextlib
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.change.control import ControlManager
from midstream.change.gatekeeper import left_before
from midstream.change.lifecycle import Element
from midstream.change.merger import triggers_of
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.model.batch import Results
from midstream.model.errors import PlanError
from midstream.model.time import FOREVER
from midstream.spark.bucket import results_of
from midstream.spark.course import OLDEST, PRINT

KEPT = 3
"""States that are kept: Spark may run the last micro-batch again."""


@dataclass
class Meeting:
    """The versions of a query as the driver sees them."""

    labels: tuple[int, ...]
    control: ControlManager = field(default_factory=ControlManager)
    drained: dict[int, dict[int, int]] = field(default_factory=dict)
    """Per version and bucket: since when nothing older is left there."""
    due: int = 0
    """Changes that were read and whose position has not been reached: it may be in the next micro-batch."""

    @property
    def quiet(self) -> bool:
        """Tell whether results of one version simply leave."""
        return self.control.quiet and not self.due

    @property
    def version(self) -> int:
        """Return the newest version that runs, or would start again."""
        return self.control.newest

    def over(self) -> list[int]:
        """Return versions that will never run again, unless they are started anew."""
        open_to = {c.new for c in self.control.open_changes}
        lives = self.control.lives
        return [v for v in lives if not lives[v].alive and v not in open_to and v != self.version]

    def on_batch(
        self, tables: Sequence[pa.Table], events: Sequence[dict[str, Any]], everything: bool = False
    ) -> list[pa.RecordBatch]:
        """Take the results and events of a micro-batch; return what leaves, in order."""
        out: list[pa.RecordBatch] = []
        rest = _by_version(tables)
        for event in events:
            for version, over_us in event["over"].items():
                self.drained.setdefault(int(version), {})[event["bucket"]] = over_us
        begun = events[0]["begun"] if events else []
        self.due = events[0]["due"] if events else 0
        now_us = max((e["released_us"] for e in events), default=-FOREVER)
        for item in begun:
            before, rest = _cut(rest, item["at_us"])
            out += self._round(before, item["at_us"])
            self._begin(item)
        out += self._round(rest, now_us, everything, ended=True)
        return out

    def _begin(self, item: dict[str, Any]) -> None:
        if "refused" in item:
            return
        if "control" in item:
            # Buckets that stop know less of results held back here; what they could do, nobody refuses.
            with contextlib.suppress(PlanError):
                self.control.control(ControlRequest(item["control"]).element, item["at_us"])
        else:
            request = ChangeRequest(**item["change"])
            change = self.control.change(request, item["version"], item["at_us"], item["audit"])
            change.record.schema_change = item["schema_change"]

    def _round(
        self, given: dict[int, Results], upto_us: int, everything: bool = False, ended: bool = False
    ) -> list[pa.RecordBatch]:
        control = self.control
        for version in sorted({*given, *(v for v, life in control.lives.items() if life.alive or control.audits(v))}):
            over = self.drained.get(version, {})
            over_us = max(over.values()) if len(over) == len(self.labels) else None
            if over_us is not None and not ended and over_us > upto_us:
                over_us = None
            control.see(version, [given[version]] if version in given else [], over_us)
        return [batch for emission in control.settle(upto_us, everything) for batch in emission.batches]

    def decided(self) -> list[Element]:
        """Return, once, the elements that results of all buckets together have brought about."""
        told, self.control.decided = self.control.decided, []
        return told


def _by_version(tables: Sequence[pa.Table]) -> dict[int, Results]:
    """Return the results of each version, those of all buckets in max order."""
    found: dict[int, list[pa.Table]] = {}
    for table in tables:
        if table.num_rows:
            found.setdefault(table.column("_version")[0].as_py(), []).append(table)
    out = {}
    for version, parts in sorted(found.items()):
        if not all(OLDEST in part.column_names for part in parts):
            # What a migration held back says what it depends on, though nobody asks.
            parts = [part.drop_columns([n for n in (OLDEST, PRINT) if n in part.column_names]) for part in parts]
        table = pa.concat_tables(parts)
        keys = [(n, "ascending") for n in table.column_names if n.startswith("_order")]
        out[version] = results_of(table.sort_by(keys) if keys else table)
    return out


def _cut(given: dict[int, Results], at_us: int) -> tuple[dict[int, Results], dict[int, Results]]:
    """Return the results that left before a position, and the others."""
    before, after = {}, {}
    for version, results in given.items():
        left = left_before(np.column_stack([triggers_of(results)]), at_us)
        before[version], after[version] = results.where(left), results.where(~left)
    return {v: r for v, r in before.items() if len(r)}, {v: r for v, r in after.items() if len(r)}


class MeetingLog:
    """The states of a meeting, by micro-batch, in a folder of the checkpoint."""

    def __init__(self, folder: Path, labels: tuple[int, ...]) -> None:
        self.folder = folder
        self._labels = labels
        self._at: tuple[int, Meeting] | None = None

    def before(self, batch: int) -> Meeting:
        """Return the meeting as it was before a micro-batch."""
        if self._at is not None and self._at[0] == batch - 1:
            return self._at[1]
        for number in sorted(self._numbers(), reverse=True):
            if number < batch:
                found: Meeting = pickle.loads((self.folder / f"{number:08d}.state").read_bytes())
                return found
        return Meeting(self._labels)

    def after(self, batch: int, meeting: Meeting, write: bool) -> None:
        """Remember the meeting as it is after a micro-batch; durably when something is going on."""
        self._at = (batch, meeting)
        if not write:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        pending = self.folder / f".{batch:08d}.{os.getpid()}.pending"
        pending.write_bytes(pickle.dumps(meeting))
        os.replace(pending, self.folder / f"{batch:08d}.state")
        for number in sorted(self._numbers())[:-KEPT]:
            with contextlib.suppress(FileNotFoundError):
                (self.folder / f"{number:08d}.state").unlink()

    def _numbers(self) -> list[int]:
        return [int(f.stem) for f in self.folder.glob("*.state")] if self.folder.is_dir() else []
