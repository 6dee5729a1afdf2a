"""How a live query is to be run: what its host and its users decide before it begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstream.engine.planning.optimizing import Optimizing
from midstream.engine.run.contract import Framework
from midstream.live.kept import Retention
from midstream.model.errors import MidstreamError

MOST_WAITING = 10_000_000


def check_waiting(rows: int) -> int:
    """Return a bound on rows that wait, if it is one."""
    if type(rows) is not int or rows < 1:
        raise MidstreamError(f"waiting must be a whole number of rows, not {rows!r}")
    return rows


@dataclass(frozen=True)
class LiveSettings:
    """How a query is to be run."""

    checkpoint: Path
    buckets: int
    ordered: bool = False
    streams: Sequence[str] = ()
    """Streams that later versions may read, beside those of the query."""
    adapt: str | None = None
    ends_by_itself: bool = False
    """It reads what is there and ends; it then does not see control rows that come later."""
    waiting: int = MOST_WAITING
    """Rows that may wait for other streams in a bucket; with more of them the query fails."""
    kept: Retention = field(default_factory=Retention)
    """How much is kept of what grows with the age of the query."""
    framework: Framework = field(default_factory=Framework)
    """How joins are executed."""
    optimize: str | Optimizing | None = None
    """Whether better plans are looked for, and taken."""
    load: Mapping[str, Any] | None = None
    """What gives when the query is behind; see `load_policy`."""
