"""Gap: what is known about the missing entries of an incomplete state."""

from dataclasses import dataclass, field

from midstream.operators.sliding.join_state import Bookmark, JoinInputState
from midstream.operators.sliding.key_set import KeySet
from midstream.operators.source.sources import Position


class KeyCount:
    """Keys of a state that are being counted, a block of entries at a time from the newest down."""

    def __init__(self, state: JoinInputState) -> None:
        self.keys = KeySet()
        self.state = state
        self.mark = Bookmark(state.count - 1)
        state.bookmarks.append(self.mark)

    def close(self) -> None:
        """Count no further."""
        self.state.bookmarks.remove(self.mark)


@dataclass
class Gap:
    """An incomplete state since a position.

    `attempted` are the keys completed so far of which there are old entries: key values where the join above has a key,
    else the latest rows of the entries below that were tried. Entries are found from side `counted` of the join below;
    `remaining` counts the keys of that side that are still to be attempted, None while they cannot be counted or
    `count` is not through.
    """

    position: Position
    attempted: KeySet = field(default_factory=KeySet)
    remaining: int | None = None
    counted: int | None = None
    count: KeyCount | None = None
    kept: int = 0
    """How many attempted keys there were when those without old entries were last forgotten."""

    def stop_counting(self) -> None:
        """Give up a count that is not through."""
        if self.count is not None:
            self.count.close()
            self.count = None
