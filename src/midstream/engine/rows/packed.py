"""Packed: what one micro-batch brings to one bucket."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from midstream.engine.rows.mail import Message
from midstream.engine.rows.rows import Rows


class Span(NamedTuple):
    """Rows of a stream whose times lie close together: from which time to which, and how many."""

    low: int
    high: int
    rows: int


@dataclass
class Packed:
    """Rows by version and alias, how far time has come, and control rows.

    In a recorded run `high` is the end of the micro-batch, and `clock_us` the time of the last row there has been;
    in a live one both are what rows have shown.
    """

    rows: dict[tuple[int, int], list[tuple[int, Rows]]] = field(default_factory=dict)
    """Per version and alias in FROM order: rows of each partition, with its number."""
    high: dict[int, int] = field(default_factory=dict)
    """Per stream position: rows before this time have come, but for late ones."""
    low: dict[int, int] = field(default_factory=dict)
    """Per stream position: the least time in this micro-batch."""
    spans: dict[int, list[Span]] = field(default_factory=dict)
    """Per stream position: its times, where rows may be too far ahead; those after the last are."""
    bound: dict[int, int] = field(default_factory=dict)
    """Per stream position: rows after this time are too far ahead, where some are; see `Progress`."""
    clock_us: int | None = None
    """How far time itself has come; None: as far as the largest `high`."""
    controls: list[dict[str, Any]] = field(default_factory=list)
    untimed: int = 0
    """Rows without a time."""
    last: bool = False
    """Nothing more will come."""
    batch: int | None = None
    """The number of the micro-batch, where its host counts them."""
    versions: set[int] | None = None
    """The versions that rows were packed for; None: nobody has said."""
    mail: list[Message] = field(default_factory=list)
    """What buckets have sent to this one in the micro-batch before."""
    strays: list[str] = field(default_factory=list)
    """What came as control rows and is none."""
    begins: int | None = None
    """How many changes and control elements that are due may take effect; buckets meet between two. None: any."""
