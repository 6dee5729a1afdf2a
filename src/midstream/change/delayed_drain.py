"""Delayed drain (DDChange): DStop of the old version; FStart of the new one where the drain is over."""

from collections.abc import Sequence

from midstream.change.lifecycle import Element, Life
from midstream.change.method import drain, start


class DelayedDrainChange:
    """Finish, then start.

    Guarantees both orders and no duplicates. Loses the new version's results that begin before the drain is over.
    Neither progress nor termination when the drain need not end.
    """

    def begin(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements at the position of the change."""
        return drain(old, at_us) if old else [start(new, at_us)]

    def on_first_result(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the new version has given its first result."""
        return []

    def on_drained(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the last old version is over."""
        return [start(new, at_us)]
