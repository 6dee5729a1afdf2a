"""The thesis's cost model (section 5.2), in steps: every constant is one. Streams bring no negative tuples.

`window` and `hop` are rows of each stream in a window and in a hop, `selectivity` the part of all pairs that match.
"""

from collections.abc import Callable

from midstream.plan.modes import CICO, CIDO, DICO, DIDO

Model = Callable[[int, int, float], dict[str, float]]


def join_steps(window: int, hop: int, selectivity: float) -> dict[str, float]:
    """Return the steps of a join per hop, by mode.

    >>> join_steps(100, 10, 0.02)
    {'DIDO': 100.0, 'DICO': 160.0, 'CICO': 500.0, 'CIDO': 900.0}
    """
    found = hop * selectivity * window
    delta = 2 * hop + 2 * hop + 2 * found + 2 * hop  # insert, probe, concatenate, purge
    pairs = window * window * selectivity
    complete = 2 * window + window + pairs
    return {DIDO: delta, DICO: delta + 2 * found + 2 * hop, CICO: complete, CIDO: complete + 2 * pairs}


def difference_steps(window: int, hop: int, selectivity: float) -> dict[str, float]:
    """Return the steps of a difference per hop, by mode.

    >>> difference_steps(100, 10, 0.01)
    {'DIDO': 95.0, 'DICO': 95.0, 'CICO': 400.0, 'CIDO': 500.0}
    """
    # As many rows of A as the selectivity says have an equal one in B.
    met = min(1.0, selectivity * window)
    delta = 2 * hop + 2 * hop + 2 * hop + 2 * hop + 1.5 * hop * met  # insert, cross, self, purge, its own result
    complete = 2.0 * window + window + window
    return {DIDO: delta, DICO: delta, CICO: complete, CIDO: complete + window * met}


THESIS: dict[str, Model] = {"join": join_steps, "difference": difference_steps}
