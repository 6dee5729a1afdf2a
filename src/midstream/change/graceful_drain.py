"""Graceful drain (GDChange): FStart of the new version; DStop of the old one at its first result."""

from collections.abc import Sequence

from midstream.change.lifecycle import Element, Life
from midstream.change.method import drain, start


class GracefulDrainChange:
    """Keep the old version until the new one answers, then let it finish.

    Guarantees no loss, stream order and progress. Versions overlap, so results over the same rows may come twice.
    """

    def begin(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements at the position of the change."""
        return [start(new, at_us)]

    def on_first_result(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the new version has given its first result."""
        return drain(old, at_us)

    def on_drained(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the last old version is over."""
        return []
