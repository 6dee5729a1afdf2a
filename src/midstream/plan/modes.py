"""Modes: what the operators of a hopping plan read and give.

An edge between two operators carries a delta (what came and went since the last hop) or the complete relation. The
mode of an operator says which of them it reads and which it gives: DIDO, DICO, CICO, CIDO.
"""

from midstream.model.errors import PlanError
from midstream.plan.algebra import Rel, Scan, name_of, walk
from midstream.plan.query import DELTA, Emit

DIDO, DICO, CICO, CIDO = "DIDO", "DICO", "CICO", "CIDO"
MODES = (DIDO, DICO, CICO, CIDO)
WINDOW, TUPLE = "window", "tuple"
"""How an operator that reads deltas works: once at the hop, or on every row as it comes."""


def check_modes(root: Rel, modes: tuple[str, ...], working: tuple[str, ...], emit: Emit) -> None:
    """Refuse modes that are none, or of which one gives what the next does not read."""
    nodes = {path: rel for path, rel in walk(root) if not isinstance(rel, Scan)}
    if len(modes) != len(nodes) or len(working) != len(nodes):
        raise PlanError(f"the plan has {len(nodes)} operators, but {len(modes)} modes")
    for mode in modes:
        if mode not in MODES:
            raise PlanError(f"there is no mode {mode}; the modes are {', '.join(MODES)}")
    for way in working:
        if way not in (WINDOW, TUPLE):
            raise PlanError(f"an operator works by {WINDOW} or by {TUPLE}, not by {way}")
    wanted = "DO" if emit == DELTA else "CO"
    if nodes and modes[-1][2:] != wanted:
        raise PlanError(f"the query emits {emit} results, but {name_of(root)} is {modes[-1]}")
    given = dict(zip(nodes, modes, strict=True))
    for path in sorted(path for path in nodes if path):
        above, below = path[:-1], given[path]
        if given[above][0] != below[2]:
            raise PlanError(
                f"{name_of(nodes[path])} is {below}, but {name_of(nodes[above])} above it is {given[above]}"
            )
