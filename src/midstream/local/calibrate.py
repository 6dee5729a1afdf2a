"""Calibrate the cost model of hopping queries: measure operators in every mode, and fit the constants to that.

    cases ──▶ nanoseconds per hop of each mode ──▶ constants that make the model's figures come closest ──▶ a file

What the model expects is a sum of constants, each as often as it says, so that fitting is a matter of least squares;
errors count as parts of what was measured, and no constant is below nothing. First all operators are fitted together,
then each by itself from there: a constant that its own figures do not separate from others stays close to that of all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from midstream.local.measure import Case, Seen, measure
from midstream.optimize.hopping.cost import NUMBERS, Constants, operator_name

RATIOS = (0.02, 0.1, 0.2, 0.4, 0.7, 1.0)
ROWS = (50_000, 120_000)
"""Rows in a window."""
OPERATORS = {
    "join": (0.5, 4.0),
    "difference": (0.5, 0.005),
    "difference of bags": (0.5, 0.005),
    "anti-join": (0.5, 4.0),
    "distinct": (0.5, 0.005),
    "union": (0.5,),
    "select": (0.5,),
    "group": (0.5, 0.05),
    "group anew": (0.5, 0.05),
}
"""What is measured, and how many keys there are for each row: many partners or few, rare values or common ones."""
NOT_FITTED = frozenset({"arrival"})
"""Constants of working by tuple, which is not measured here."""
OF_ALL = NOT_FITTED | {"read", "match", "pick", "cache", "uncache", "hold"}
"""Constants that no operator has for itself."""
ROUNDS = 4000
HELD = 0.02
"""How much it counts that a constant of one operator is that of all, beside one measured case."""
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
    """The part of all pairs of modes, a tenth or more apart, that the model puts in the right order."""

    @property
    def by_operator(self) -> dict[str, dict[str, float]]:
        """Return the constants by operator, those of all operators first."""
        each = {"all": self.constants, **self.constants.own}
        return {operator: {name: getattr(of, name) for name in NUMBERS} for operator, of in each.items()}


def calibrate(progress: Progress | None = None, seed: int = 1) -> Calibration:
    """Measure and fit; takes some minutes."""
    cases = [
        Case(name, ratio, rows, round(rows * part))
        for name, parts in OPERATORS.items()
        for part in parts
        for rows in ROWS
        for ratio in RATIOS
    ]
    seen: list[Seen] = []
    for done, case in enumerate(cases):
        seen += measure(case, seed)
        if progress is not None:
            progress(done + 1, len(cases))
    return fitted(seen)


def fitted(seen: Sequence[Seen]) -> Calibration:
    """Return the constants that fit what was seen."""
    common = _fit(seen, Constants(), 0.0, NOT_FITTED)
    by_name: dict[str, list[Seen]] = {}
    for one in seen:
        by_name.setdefault(operator_name(one.rel), []).append(one)
    constants = replace(common, own={name: _fit(own, common, HELD, OF_ALL) for name, own in by_name.items()})
    errors = [abs(s.expected(constants).total / s.ns - 1) for s in seen]
    return Calibration(constants, len(seen), float(np.median(errors)), ranked(seen, constants))


def _fit(seen: Sequence[Seen], start: Constants, held: float, kept: frozenset[str]) -> Constants:
    """Return the constants that fit some cases, as close to those given as the cases leave it open."""
    nothing = dict.fromkeys(NUMBERS, 0.0)
    unit = [Constants().but({**nothing, name: 1.0}) for name in NUMBERS]
    counts = np.array([[s.expected(one).total for one in unit] for s in seen])
    times = np.array([s.ns for s in seen])
    first = np.array([getattr(start, name) for name in NUMBERS])
    moving = np.array([name not in kept for name in NUMBERS])
    found = _least_squares(counts / times[:, None], first, held, moving)
    return start.but({name: float(value) for name, value in zip(NUMBERS, found, strict=True)})


def _least_squares(parts: Floats, start: Floats, held: float, moving: npt.NDArray[np.bool_]) -> Floats:
    """Return weights of 0 or more that make the sum of the parts of each line come closest to 1.

    One weight after the other is set to its best, over and over. To leave its start by all of it costs `held`; those
    that do not move, or that no line has, keep it.
    """
    weights = start.copy()
    rest = 1 - parts @ weights
    holds = held / np.maximum(start, 1.0) ** 2
    squares = (parts**2).sum(axis=0)
    for _ in range(ROUNDS):
        before = weights.copy()
        for k in np.flatnonzero(squares * moving):
            step = (parts[:, k] @ rest + holds[k] * (start[k] - weights[k])) / (squares[k] + holds[k])
            moved = max(0.0, weights[k] + step)
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
