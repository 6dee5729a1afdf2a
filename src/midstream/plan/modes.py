"""Modes: what the operators of a hopping plan read and give.

An edge between two operators carries a delta (what came and went since the last hop) or the complete relation. The
mode of an operator says which of them it reads and which it gives: DIDO, DICO, CICO, CIDO.
"""

from midstream.model.errors import PlanError
from midstream.plan.algebra import Rel, Scan, inputs, name_of, operators
from midstream.plan.query import DELTA, Emit

DIDO, DICO, CICO, CIDO = "DIDO", "DICO", "CICO", "CIDO"
MODES = (DIDO, DICO, CICO, CIDO)
WINDOW, TUPLE = "window", "tuple"
"""How an operator that reads deltas works: once at the hop, or on every row as it comes."""

Path = tuple[int, ...]
"""The way from the root to an operator: 0 is the left or only input, 1 the right."""


def paths(rel: Rel, path: Path = ()) -> list[Path]:
    """Return the paths of the operators, in the order of `operators`."""
    if isinstance(rel, Scan):
        return []
    below = [p for i, child in enumerate(inputs(rel)) for p in paths(child, (*path, i))]
    return [*below, path]


def check_modes(root: Rel, modes: tuple[str, ...], working: tuple[str, ...], emit: Emit) -> None:
    """Refuse modes that are none, or of which one gives what the next does not read."""
    nodes = list(operators(root))
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
        raise PlanError(f"the query emits {emit} results, but {name_of(nodes[-1])} is {modes[-1]}")
    _check_edges(root, dict(zip(paths(root), modes, strict=True)))


def _check_edges(rel: Rel, modes: dict[Path, str], path: Path = ()) -> None:
    for i, child in enumerate(inputs(rel)):
        if isinstance(child, Scan):
            continue
        above, below = modes[path], modes[(*path, i)]
        if above[0] != below[2]:
            raise PlanError(f"{name_of(child)} is {below}, but {name_of(rel)} above it is {above}")
        _check_edges(child, modes, (*path, i))


def mode_text(rel: Rel, modes: dict[Path, str], path: Path = ()) -> str:
    """Write a tree with its modes in one line: `(except:CICO (join:DICO a b) c)`."""
    if isinstance(rel, Scan):
        return str(rel)
    below = [mode_text(child, modes, (*path, i)) for i, child in enumerate(inputs(rel))]
    return f"({' '.join([f'{name_of(rel)}:{modes[path]}', *below])})"
