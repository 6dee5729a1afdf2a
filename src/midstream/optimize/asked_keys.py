"""What just-in-time computes: the keys of missing states that come before their entries are over.

    rows and results that arrive at the other side, or ask from above ──▶ keys of the state, common ones one by one
        ──▶ the part of its entries that is asked for while it lives

A join without a key touches entries of the join below instead, and tries each of them until it does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, prod
from typing import Any

import numpy as np

from midstream.model.statistics import Statistics, Values
from midstream.optimize.guesses import COMPARED, DISTINCT
from midstream.optimize.join_cost import JoinCost
from midstream.optimize.old_rows import OldRows
from midstream.optimize.search import members
from midstream.plan.expr import aliases
from midstream.plan.nodes import Join


@dataclass(frozen=True)
class Asker:
    """Who asks for keys of a state: some aliases, as bits, so often in a second."""

    parts: int
    rate: float


@dataclass(frozen=True)
class Asked:
    """What is asked of a state: parts of its entries, and evaluations to find out which."""

    part: float
    """Of all entries that live at the position."""
    soon: float
    """In the first micro-batch."""
    tried: float = 0.0
    tried_soon: float = 0.0


class AskedKeys:
    """States that are completed on demand, by what is known of their keys."""

    def __init__(self, cost: JoinCost, rows: OldRows, statistics: Statistics, batch_s: float) -> None:
        self._cost, self._rows, self._statistics, self._batch_s = cost, rows, statistics, batch_s

    def by_key(self, join: Join, state: int, askers: Sequence[Asker]) -> Asked:
        """Return what a join by key asks of a state."""
        lives = self._rows.all_old(state)
        part = soon = 0.0
        for weight, rate in self._keys(join.keys[0].group, state, askers):
            part += weight * self._rows.asked(rate, lives)
            soon += weight * (1 - exp(-rate * self._batch_s))
        return Asked(part, soon)

    def by_touch(self, join: Join, state: int, below: Sequence[int], rate: float) -> Asked:
        """Return what a join without a key asks of a state; `below` are the inputs of the join that makes it."""
        read = {str(c): self._cost.bits(aliases(c.left) | aliases(c.right)) for c in join.comparisons}
        side = next((side for side in below if any(bits & side for bits in read.values())), None)
        if side is None:
            return Asked(1.0, 1.0)
        passing = prod(self._statistics.selectivity.get(t, COMPARED) for t, bits in read.items() if bits & side)
        touched = rate * passing
        lives, entries = self._rows.all_old(side), self._cost.entries(side)
        tried = entries * rate * float((np.exp(-touched * self._rows.at_s) * lives).sum()) * self._rows.step_s
        soon = 1 - exp(-touched * self._batch_s)
        tried_soon = entries * (soon / passing if passing else rate * self._batch_s)
        return Asked(self._rows.asked(touched, self._rows.all_old(state)), soon, tried, min(tried, tried_soon))

    def _keys(self, group: int, state: int, askers: Sequence[Asker]) -> Iterator[tuple[float, float]]:
        """Yield kinds of keys: which part of a state's entries has them, and how often one is asked for in a second."""
        mine = self._values(group, state)
        asking = [(a.rate, found[0]) for a in askers if (found := self._values(group, a.parts))]
        if not mine or not asking:
            yield 1.0, sum(a.rate for a in askers) / DISTINCT
            return
        every = [*mine, *(v for _, v in asking)]
        named = {key for v in every for key in v.common}
        most = max(v.distinct for v in every)
        weights = {key: prod(_share(v, key, most) for v in mine) for key in named}
        rest = max(min(v.distinct for v in mine) - len(named), 0.0) * prod(_share(v, None, most) for v in mine)
        total = (sum(weights.values()) + rest) or 1.0
        for key, weight in weights.items():
            yield weight / total, sum(rate * _share(v, key, most) for rate, v in asking)
        yield rest / total, sum(rate * _share(v, None, most) for rate, v in asking)

    def _values(self, group: int, parts: int) -> list[Values]:
        names = (self._cost.names[n] for n in members(parts))
        return [v for name in names if (v := self._statistics.values.get((group, name))) is not None]


def _share(values: Values, key: Any, most: float) -> float:
    """Return which part of some rows has a key, or one of those that nobody counted; of `most` keys at most."""
    if key in values.common:
        return values.common[key]
    known = len(values.common)
    return values.others / (max(values.distinct if known else most, known + 1.0) - known)
