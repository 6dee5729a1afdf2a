"""Trigger: time, stream and offset of what made a result leave; what versions are compared by."""

import numpy as np
import numpy.typing as npt

from midstream.model.batch import Results

Matrix = npt.NDArray[np.int64]
TRIGGER = 3
"""Columns of a trigger."""


def triggers_of(results: Results) -> Matrix:
    """Return what made each result leave; their time, when nobody asked for their order."""
    if results.order is not None:
        return results.order[:, :TRIGGER]
    out = np.zeros((len(results), TRIGGER), np.int64)
    out[:, 0] = results.rows.column("_time").to_numpy()
    return out


def last_left_us(results: Results) -> int:
    """Return when the last of some results left."""
    return int(results.rows.column("_time")[-1].as_py() if results.order is None else results.order[-1, 0])


def left_before(triggers: Matrix, at_us: int) -> npt.NDArray[np.bool_]:
    """Return which results left before a position; a window instance that ends at the position did.

    >>> left_before(np.array([[4, 0, 9, 0], [5, -1, -1, -1], [5, 0, 3, 0]]), 5)
    array([ True,  True, False])
    """
    return np.asarray((triggers[:, 0] < at_us) | ((triggers[:, 0] == at_us) & (triggers[:, 1] < 0)), np.bool_)


def earlier(triggers: Matrix, than: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return which triggers come before a given one.

    >>> earlier(np.array([[1, 0, 5], [2, 0, 3], [2, 0, 4]]), (2, 0, 4))
    array([ True,  True, False])
    """
    out = np.zeros(len(triggers), np.bool_)
    same = np.ones(len(triggers), np.bool_)
    for k, value in enumerate(than):
        out |= same & (triggers[:, k] < value)
        same &= triggers[:, k] == value
    return out
