"""Scale: how large a study is, as a factor of the paper's sizes."""

from dataclasses import dataclass

from midstream.model.errors import MidstreamError

NAMED = {"quick": 0.1, "paper": 1.0}
LEAST, MOST = 0.01, 100.0


@dataclass(frozen=True)
class Scale:
    """A factor of the paper's sizes. What it stretches, and what it must leave alone, each study says itself."""

    factor: float = 1.0

    @property
    def quick(self) -> bool:
        """Tell whether it is small enough to leave out what only larger runs can show."""
        return self.factor <= NAMED["quick"]

    def of(self, count: float, least: int = 1) -> int:
        """Return a count at this scale, at least so many.

        >>> Scale(0.1).of(10_000), Scale(0.1).of(4, least=2)
        (1000, 2)
        """
        return max(least, round(count * self.factor))


def read_scale(text: str) -> Scale:
    """Read a scale: quick, paper, or a factor.

    >>> read_scale("quick"), read_scale("2.5")
    (Scale(factor=0.1), Scale(factor=2.5))
    """
    try:
        factor = NAMED[text] if text in NAMED else float(text)
    except ValueError:
        factor = 0.0
    if not LEAST <= factor <= MOST:
        raise MidstreamError(f"a scale is quick, paper, or a factor from {LEAST:g} to {MOST:g}, not '{text}'")
    return Scale(factor)
