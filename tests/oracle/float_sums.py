"""What floats come to: the exact sum, rounded once."""

import math
from collections.abc import Sequence
from fractions import Fraction


def summed(values: Sequence[float]) -> float:
    """Return the exact sum, rounded once; of what is not finite, as if it were added."""
    special = [v for v in values if not math.isfinite(v)]
    if special:
        return sum(special)
    total = sum(map(Fraction, values), Fraction())
    try:
        return float(total) + 0.0
    except OverflowError:
        return math.inf if total > 0 else -math.inf
