"""Assign modes: the cheapest mode for every operator of a tree, in one walk from the leaves to the root.

For every operator the cheapest way to give a delta and the cheapest way to give the complete relation are kept, each
with the modes below it: what is above an operator sees of it only which of the two it gives (theorem of optimality).
"""

from dataclasses import dataclass

from midstream.optimize.hopping.cost import Constants, cost
from midstream.optimize.hopping.estimate import Sizes
from midstream.plan.algebra import Rel, Scan, inputs
from midstream.plan.modes import MODES, WINDOW
from midstream.plan.query import DELTA, Emit


@dataclass(frozen=True)
class Planned:
    """A tree with the modes of its operators, in the order of `operators`, and what they cost together per hop."""

    cost: float
    rel: Rel
    modes: tuple[str, ...]


def assign_modes(root: Rel, emit: Emit, sizes: Sizes, constants: Constants, working: str = WINDOW) -> Planned:
    """Return a tree with the cheapest modes that give what is emitted, when all operators work in one way."""
    best = _best(root, sizes, constants, working, emit == DELTA)
    return best["D" if emit == DELTA else "C"]


def _best(rel: Rel, sizes: Sizes, constants: Constants, working: str, emitted: bool = False) -> dict[str, Planned]:
    if isinstance(rel, Scan):
        return dict.fromkeys("DC", Planned(0.0, rel, ()))
    below = [_best(child, sizes, constants, working) for child in inputs(rel)]
    best: dict[str, Planned] = {}
    for mode in MODES:
        reading = [b[mode[0]] for b in below]
        total = cost(rel, mode, working, sizes, constants, emitted).total + sum(r.cost for r in reading)
        if mode[2] not in best or total < best[mode[2]].cost:
            best[mode[2]] = Planned(total, rel, (*(m for r in reading for m in r.modes), mode))
    return best
