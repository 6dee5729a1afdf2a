"""Drain change (DChange): DStop of the old version and FStart of the new one, at one position."""

from collections.abc import Sequence

from midstream.change.lifecycle import Element, Life
from midstream.change.method import drain, start


class DrainChange:
    """Finish beside the new version; the merger appends (QDChange) or interleaves (SDChange) what both give.

    Guarantees no loss, no duplicates, progress, and one of both orders.
    Cost: both versions run until the old rows are gone; in query order the new version's results are held back.
    """

    def begin(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements at the position of the change."""
        return [*drain(old, at_us), start(new, at_us)]

    def on_first_result(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the new version has given its first result."""
        return []

    def on_drained(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the last old version is over."""
        return []
