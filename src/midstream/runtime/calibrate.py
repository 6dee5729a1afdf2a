"""Calibrate the cost model of hopping queries: measure operators in every mode, and fit the constants to that.

    cases ──▶ nanoseconds per hop of each mode ──▶ constants that make the model's figures come closest ──▶ a file

What the model expects is a sum of constants, each as often as it says, so that fitting is a matter of least squares;
errors count as parts of what was measured, and no constant is below nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import numpy.typing as npt

from midstream.optimize.hopping.cost import Constants
from midstream.runtime.hop_measure import Case, Seen, measure

RATIOS = (0.02, 0.1, 0.3, 0.6, 1.0)
SIZES = ((50_000, 30_000), (120_000, 60_000))
"""Rows in a window, and different keys."""
OPERATORS = ("join", "difference", "difference of bags", "anti-join", "distinct", "union", "select", "group")
NOT_FITTED = ("arrival",)
"""Constants of working by tuple, which is not measured here."""
ROUNDS = 4000
Progress = Callable[[int, int], None]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Constants of a machine, and how well they say what was measured."""

    constants: Constants
    cases: int
    error: float
    """The median error of the model, as a part of what was measured."""
    ranked: float
    """The part of all pairs of modes, told apart by more than a tenth, that the model puts in the right order."""


def calibrate(progress: Progress | None = None, seed: int = 1) -> Calibration:
    """Measure and fit; takes a minute or two."""
    cases = [Case(name, ratio, *size) for name in OPERATORS for size in SIZES for ratio in RATIOS]
    seen: list[Seen] = []
    for done, case in enumerate(cases):
        seen += measure(case, hops=6, seed=seed)
        if progress is not None:
            progress(done + 1, len(cases))
    return fitted(seen)


def fitted(seen: Sequence[Seen]) -> Calibration:
    """Return the constants that fit what was seen."""
    known = Constants()
    names = [f.name for f in fields(Constants) if f.name not in NOT_FITTED]
    unit = [Constants(**{f.name: float(f.name == name) for f in fields(Constants)}) for name in names]
    counts = np.array([[s.expected(one).total for one in unit] for s in seen])
    times = np.array([s.ns for s in seen])
    start = np.array([getattr(known, name) for name in names])
    found = _least_squares(counts / times[:, None], start)
    values = asdict(known) | {name: float(value) for name, value in zip(names, found, strict=True)}
    constants = Constants(**values)
    error = float(np.median(np.abs(counts @ found / times - 1)))
    return Calibration(constants, len(seen), error, ranked(seen, constants))


def _least_squares(parts: Floats, start: Floats) -> Floats:
    """Return weights of 0 or more that make the sum of the parts of each line come closest to 1.

    One weight after the other is set to its best, over and over; those that no line has keep their start.
    """
    weights = start.copy()
    rest = 1 - parts @ weights
    squares = (parts**2).sum(axis=0)
    for _ in range(ROUNDS):
        before = weights.copy()
        for k in np.flatnonzero(squares):
            moved = max(0.0, weights[k] + parts[:, k] @ rest / squares[k])
            rest -= parts[:, k] * (moved - weights[k])
            weights[k] = moved
        if np.abs(weights - before).max() < 1e-6:
            break
    return weights


def ranked(seen: Sequence[Seen], constants: Constants, apart: float = 0.1) -> float:
    """Return the part of pairs of modes of a case, measured apart, that the model puts in the right order."""
    right = pairs = 0
    cases: dict[Case, list[Seen]] = {}
    for one in seen:
        cases.setdefault(one.case, []).append(one)
    for modes in cases.values():
        for i, a in enumerate(modes):
            for b in modes[i + 1 :]:
                if abs(a.ns - b.ns) > apart * min(a.ns, b.ns):
                    pairs += 1
                    right += (a.ns < b.ns) == (a.expected(constants).total < b.expected(constants).total)
    return right / pairs if pairs else 1.0
