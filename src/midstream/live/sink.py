"""Sink: what is done with the results of one micro-batch.

Contract: a batch may come again with the same number after a crash, with the same rows. A sink is exactly-once when
writing a batch twice leaves the same as writing it once.

    results of one version that need not meet ──▶ write_lines: straight from the workers
    results that met: departures, hop by hop   ──▶ write
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from midstream.engine.results.merger import Departure
from midstream.live.lines import Lines


@dataclass(frozen=True)
class Owner:
    """The query whose results a sink takes."""

    identity: str
    name: str
    checkpoint: Path
    resumed: bool
    """It has run before."""


class BatchSink(Protocol):
    """Takes the results of each micro-batch."""

    def begin(self, owner: Owner) -> None:
        """Get ready for the results of a query, or refuse: they belong to another one."""

    def fence(self, first: int, check_newest: Callable[[], None]) -> None:
        """Keep earlier runs out, now that one has begun with micro-batch `first`; `check_newest` refuses once it is not
        the newest any more. Refuse results of micro-batches from `first` on: nobody has planned them.
        """

    def write_lines(self, lines: Lines, schema: pa.Schema, batch: int, ordered: bool) -> list[Any]:
        """Take the results among the lines of a micro-batch, all of one version; return the other lines.

        `ordered`: in max order.
        """

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Take results that met, in order; `schema` is that of the newest version."""


def anybody() -> None:
    """Refuse nobody: no run has begun that others could be behind."""


def together(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return batches as one table, with the columns of all of them side by side."""
    return pa.concat_tables([pa.Table.from_batches([b]) for b in batches], promote_options="default")
