"""What every change method says: which control elements a change becomes, at its position and when the data ask."""

from collections.abc import Sequence
from typing import Protocol

from midstream.change.lifecycle import DSTOP, FSTART, ISTOP, Element, Life


class Method(Protocol):
    """A way from the old versions of a query to a new one. The old ones are those that are still alive."""

    def begin(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements at the position of the change."""

    def on_first_result(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the new version has given its first result, at an event time."""

    def on_drained(self, old: Sequence[Life], new: Life, at_us: int) -> list[Element]:
        """Return the elements when the last old version is over: nothing older is left from an event time on."""


def stop(lives: Sequence[Life], at_us: int) -> list[Element]:
    """Return an IStop for each version."""
    return [Element(ISTOP, life.version, at_us) for life in lives]


def drain(lives: Sequence[Life], at_us: int) -> list[Element]:
    """Return a DStop for each version."""
    return [Element(DSTOP, life.version, at_us) for life in lives]


def start(life: Life, at_us: int) -> Element:
    """Return an FStart for a version."""
    return Element(FSTART, life.version, at_us)
