"""The layout of entries, for those outside the kernels who look into them."""

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.complete import NO_WALK, lineage, touched
from midstream.kernels.entries import KEY, LATEST, ROWS, values_of

__all__ = [
    "KEY",
    "LATEST",
    "NO_WALK",
    "ROWS",
    "Mask",
    "Matrix",
    "Vector",
    "in_order",
    "lineage",
    "reordered",
    "touched",
    "values_of",
]


def in_order(entries: Matrix) -> Matrix:
    """Return entries in order of their latest row; those that share it stay as they are."""
    latest = entries[:, LATEST]
    if len(latest) < 2 or bool((latest[1:] >= latest[:-1]).all()):
        return entries
    return entries[np.argsort(latest, kind="stable")]


def reordered(results: Matrix, components: tuple[str, ...], wanted: tuple[str, ...]) -> Matrix:
    """Return results with the row numbers of their components in another order."""
    if components == wanted:
        return results
    return results[:, [*range(ROWS), *(ROWS + components.index(a) for a in wanted)]]
