"""A switch of plans: what a strategy is given, and what all strategies have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from midstream.migrate.gap import Gap
from midstream.migrate.match import Matching, Moment
from midstream.migrate.request import MigrationRequest
from midstream.operators.contract.execution import Parts, Progress, Switched
from midstream.operators.sliding.tree import JoinTree
from midstream.operators.source.sources import Position, Sources


@dataclass(frozen=True)
class Switch:
    """From a running tree of joins to another one with empty states, at a position."""

    old: JoinTree
    gaps: Mapping[Parts, Gap]
    """What is missing in the old tree's states, left by an earlier migration."""
    new: JoinTree
    sources: Sources
    position: Position
    moment: Moment
    request: MigrationRequest
    last_old_us: int | None
    """When no row from before the position can matter any more, if that is a matter of time alone."""


Strategy = Callable[[Switch], Switched]
"""Takes over from the running tree and returns the execution that goes on."""


def progress_of(matching: Matching, **done: int) -> Progress:
    """Return what a strategy has found of the new plan's states, and done since."""
    return Progress(
        states_matched=matching.matched,
        states_moved=len(matching.moved),
        states_incomplete=len(matching.missing),
        **done,
    )
