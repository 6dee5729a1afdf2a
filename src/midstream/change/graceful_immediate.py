"""Graceful immediate change (GIChange): FStart of the new version; IStop of the old one at its first result."""

from collections.abc import Sequence

from midstream.change.lifecycle import Element, Life
from midstream.change.method import start, stop


class GracefulImmediateChange:
    """Keep the old version until the new one answers.

    Guarantees both orders, no duplicates, progress. Loses what the old version has not given by then, and gives more
    than the reference while it waits.
    """

    def begin(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements at the position of the change."""
        return [start(new, at_us)]

    def on_first_result(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the new version has given its first result."""
        return stop(old, at_us)

    def on_drained(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the last old version is over."""
        return []
