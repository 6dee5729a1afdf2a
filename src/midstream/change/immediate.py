"""Immediate change (IChange): IStop of the old version and FStart of the new one, at one position."""

from collections.abc import Sequence

from midstream.change.lifecycle import Element, Life
from midstream.change.method import start, stop


class ImmediateChange:
    """Stop and start.

    Guarantees both orders, no duplicates, progress and termination. Loses what the old version had begun.
    Cost: none; the versions never run together.
    """

    def begin(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements at the position of the change."""
        return [*stop(old, at_us), start(new, at_us)]

    def on_first_result(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the new version has given its first result."""
        return []

    def on_drained(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the last old version is over."""
        return []
