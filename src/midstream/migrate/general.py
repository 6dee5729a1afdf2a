"""General strategies: both plans are black boxes, known by the rows they take in and the results they give.

    rows before the position ──┬──▶ old plan ──▶ output
                               └──▶ new plan ──▶ nowhere, until it is in the state of the old one ──▶ output

A strategy is two answers: does the new plan get the old rows, and does it get rows at once or as there is time.
"""

from dataclasses import dataclass

from midstream.migrate.request import GENERAL_HYBRID, GENERAL_MOVING_STATE, GENERAL_PARALLEL_TRACK


@dataclass(frozen=True)
class Feed:
    """How a new plan comes to the state of the old one."""

    seeded: bool
    """It gets the old rows that matter: it is in that state once it has had every row. Else it is when nothing the old
    plan holds is older than the position."""
    at_once: bool
    """It gets rows right away, else some in each micro-batch, after the old plan."""


FEED = {
    GENERAL_MOVING_STATE: Feed(seeded=True, at_once=True),
    GENERAL_PARALLEL_TRACK: Feed(seeded=False, at_once=True),
    GENERAL_HYBRID: Feed(seeded=True, at_once=False),
}
