"""Gap: what is known about the missing entries of an incomplete state."""

from dataclasses import dataclass

from midstream.operators.sliding.key_set import KeySet
from midstream.operators.source.sources import Position


@dataclass
class Gap:
    """An incomplete state since a position.

    `attempted` are the keys completed so far: key values where the join above has a key, else the latest rows of the
    entries below that were tried. Entries are found from side `counted` of the join below; `remaining` counts the keys
    of that side that are still to be attempted, None while they cannot be counted.
    """

    position: Position
    attempted: KeySet
    remaining: int | None = None
    counted: int | None = None
