"""Chunks: in which tables the rows of a window lie, so that there are few however many micro-batches brought them.

    a micro-batch ──▶ a chunk ──▶ the last eight become one, where that is small beside the whole window

So a window of n rows lies in about log n chunks, each row is written again a few times, and no more than a small part
of what is kept is rows that have left the window: a chunk goes when its last row does.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from midstream.model.time import NEVER

TOGETHER = 8
"""So many chunks become one."""
PART = 4
"""One that is made has no more than this part of all."""
LARGEST_BYTES = 1 << 20
"""One that is made is no larger: a micro-batch that makes one takes no longer than others."""
OVERHEAD_BYTES = 256
"""What an empty chunk takes."""


class Sized(Protocol):
    """A chunk, as far as it matters here."""

    @property
    def nbytes(self) -> int:
        """Return how large it is; 0: nobody has noted it."""


class Chunk(NamedTuple):
    """What is known of a chunk of rows without reading it: the last micro-batch it has rows of, and their last time."""

    number: int
    rows: int
    latest_us: int
    nbytes: int = 0


class WaitingChunk(NamedTuple):
    """What is known of a chunk of rows that wait; those before what has been released wait no more."""

    number: int
    rows: int
    latest_us: int
    nbytes: int = 0
    first_us: int = NEVER


class HeldChunk(NamedTuple):
    """What is known of output that is held back."""

    number: int
    nbytes: int = 0


def to_merge(chunks: Sequence[Sized]) -> bool:
    """Return whether the last chunks are to become one.

    The first of them is no larger than the others together: so each time a row is written again, it is in a chunk that
    is twice as large at least.
    """
    if len(chunks) < TOGETHER:
        return False
    sizes = [chunk.nbytes + OVERHEAD_BYTES for chunk in chunks[-TOGETHER:]]
    if sizes[0] > sum(sizes[1:]) or sum(sizes) > LARGEST_BYTES:
        return False
    return sum(sizes) <= total(chunks) // PART


def total(chunks: Iterable[Sized]) -> int:
    """Return how large chunks are together."""
    return sum(chunk.nbytes + OVERHEAD_BYTES for chunk in chunks)
