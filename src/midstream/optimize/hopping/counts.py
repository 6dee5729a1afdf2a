"""How often values come when rows fall on them evenly: numbers with Poisson's distribution, by their means."""

import math

SUMMED = 50.0
"""Means up to this are summed term by term; above it the normal distribution is near enough."""


def present(mean: float) -> float:
    """Return the part of all values that come at all.

    >>> round(present(1.0), 3), present(0.0)
    (0.632, 0.0)
    """
    return -math.expm1(-mean)


def absent(mean: float) -> float:
    """Return the part of all values that do not come."""
    return math.exp(-mean)


def still_present(mean: float, staying: float) -> float:
    """Return which part of the values that come are there at the next hop, when of their rows a part stays.

    At both hops: at either of them, less those that come in the rows of the two together.

    >>> still_present(3.0, 1.0), round(still_present(0.001, 0.0), 3), round(still_present(20.0, 0.0), 3)
    (1.0, 0.001, 1.0)
    """
    if not mean:
        return 1.0
    return max(0.0, 2 - present(mean * (2 - staying)) / present(mean))


def excess(left: float, right: float) -> float:
    """Return the mean of max(l - r, 0) for two independent numbers with given means.

    >>> excess(3.0, 0.0), round(excess(1.0, 1.0), 4), round(excess(100.0, 100.0), 2)
    (3.0, 0.5238, 5.64)
    """
    if left + right > SUMMED:
        spread = math.sqrt(left + right)
        at = (left - right) / spread
        below = math.erfc(-at / math.sqrt(2)) / 2
        return (left - right) * below + spread * math.exp(-at * at / 2) / math.sqrt(2 * math.pi)
    # Over r: the chance of r, times the mean of max(l - r, 0), which falls by the chance of l > r from term to term.
    total, over, more = 0.0, left, present(left)
    chance_left, chance_right = math.exp(-left), math.exp(-right)
    for r in range(1, int(SUMMED + 10 * math.sqrt(SUMMED))):
        total += chance_right * over
        over = max(0.0, over - more)
        chance_left, chance_right = chance_left * left / r, chance_right * right / r
        more = max(0.0, more - chance_left)
    return total
