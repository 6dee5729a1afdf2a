"""The cost of a sliding join: predicate evaluations per second, from rates, windows and values.

    combinations in the windows = rows in the windows, multiplied, x the part that satisfies the conditions among them
    found per second            = combinations x how often the windows turn over (each is found by its latest row)

A join by key evaluates the pairs whose keys are equal, a nested loop all pairs; each result of a join below the top is
stored and looks for partners in turn, which counts as one evaluation more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np
import numpy.typing as npt

from midstream.model.statistics import Statistics, Values
from midstream.optimize.guesses import COMPARED, DISTINCT
from midstream.optimize.matches import Matches
from midstream.optimize.search import bits_of, members
from midstream.plan.nodes import MethodChoice
from midstream.plan.predicates import Predicates
from midstream.plan.tree import Pair, Tree

Numbers = npt.NDArray[np.float64]
Bits = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cost:
    """What a join tree is expected to do in a second."""

    evaluations: float
    """Predicate evaluations."""
    intermediate: float
    """Results of joins below the top, each stored and probed with once."""

    @property
    def total(self) -> float:
        """Return the cost as one number."""
        return self.evaluations + self.intermediate


@dataclass(frozen=True)
class _Set:
    """What is expected of a join of some streams."""

    rows: float
    """The rows in the windows, multiplied."""
    equal: float
    """The part of it in which all equalities hold."""
    compared: float
    """The part of it in which all other conditions hold."""
    turnover: float
    """How often the windows turn over in a second, summed."""

    @property
    def entries(self) -> float:
        """Return how many results are in the windows."""
        return self.rows * self.equal * self.compared


@dataclass(frozen=True)
class SetTables:
    """What `_Set` says of all sets of streams, by their bits."""

    rows: Numbers
    equal: Numbers
    compared: Numbers
    turnover: Numbers
    linking: tuple[int, ...]
    """The streams that each equality class holds together."""
    method: MethodChoice

    def join(self, a: Bits, b: Bits) -> Numbers:
        """Return what joins of sets add to the cost of a tree; see `JoinCost.join`."""
        both = a | b
        linked = np.zeros(len(both), np.bool_)
        for bits in self.linking:
            linked |= (a & bits != 0) & (b & bits != 0)
        keyed = linked if self.method != "nested-loop" else np.zeros(len(both), np.bool_)
        equal, compared = self.equal, self.compared
        pairs = self.rows[both] * np.where(keyed, equal[both], equal[a] * equal[b]) * compared[a] * compared[b]
        found = self.rows[both] * equal[both] * compared[both]
        found[both == len(self.rows) - 1] = 0.0
        costs: Numbers = (pairs + found) * self.turnover[both]
        if self.method == "hash":
            costs[~linked] = inf
        return costs


class JoinCost:
    """Sizes and costs of the joins of a query's streams; sets of streams are bits, in FROM order."""

    def __init__(
        self,
        names: Sequence[str],
        predicates: Predicates,
        statistics: Statistics,
        method: MethodChoice = "auto",
    ) -> None:
        self.names = tuple(names)
        self._statistics = statistics
        self._method = method
        classes = [self.bits(c.aliases) for c in predicates.classes]
        self._classes = [(bits, self._matches(group, bits)) for group, bits in enumerate(classes)]
        conditions = predicates.conditions.items()
        self._conditions = [(self.bits(read), statistics.selectivity.get(text, COMPARED)) for text, read in conditions]
        self._sets: dict[int, _Set] = {}

    @property
    def known(self) -> bool:
        """Tell whether something is known of all streams."""
        return all(a in self._statistics.window_rows and a in self._statistics.rows_per_s for a in self.names)

    def bits(self, parts: Sequence[str] | frozenset[str]) -> int:
        """Return aliases as bits."""
        return bits_of(self.names.index(a) for a in parts)

    def of(self, tree: Tree) -> Cost:
        """Return the cost of a join tree."""
        joins = self._joins(tree)[1]
        evaluations = sum(self.evaluations(a, b) for a, b in joins)
        return Cost(evaluations, sum(self.rate(a | b) for a, b in joins[:-1]))

    def _joins(self, tree: Tree) -> tuple[int, list[tuple[int, int]]]:
        if not isinstance(tree, Pair):
            return self.bits((tree,)), []
        (a, left), (b, right) = self._joins(tree.left), self._joins(tree.right)
        return a | b, [*left, *right, (a, b)]

    def entries(self, parts: int) -> float:
        """Return how many results of a set of streams are in the windows at a time."""
        return self._set(parts).entries

    def rate(self, parts: int) -> float:
        """Return how many results of a set of streams are found in a second."""
        joined = self._set(parts)
        return joined.entries * joined.turnover

    def pairs(self, a: int, b: int) -> float:
        """Return how many pairs of results in the windows a join of two sets evaluates; endless: it cannot be done."""
        left, right, both = self._set(a), self._set(b), self._set(a | b)
        linked = any(bits & a and bits & b for bits, _ in self._classes)
        if self._method == "hash" and not linked:
            return inf
        keyed = linked and self._method != "nested-loop"
        return both.rows * (both.equal if keyed else left.equal * right.equal) * left.compared * right.compared

    def evaluations(self, a: int, b: int) -> float:
        """Return the predicate evaluations of a join of two sets in a second."""
        return self.pairs(a, b) * self._set(a | b).turnover

    def join(self, a: int, b: int, top: int) -> float:
        """Return what a join of two sets adds to the cost of a tree over all of `top`."""
        return self.evaluations(a, b) + (self.rate(a | b) if a | b != top else 0.0)

    def tables(self) -> "SetTables":
        """Return what is expected of all sets of streams, by their bits: for a search that asks for each of them."""
        count, known = 1 << len(self.names), self._statistics
        rows, turnover = np.ones(count), np.zeros(count)
        for n, alias in enumerate(self.names):
            held = max(known.window_rows.get(alias, 0.0), 1e-9)
            rows[1 << n : 2 << n] = rows[: 1 << n] * (held * known.passing.get(alias, 1.0))
            turnover[1 << n : 2 << n] = turnover[: 1 << n] + known.rows_per_s.get(alias, 0.0) / held
        every = np.arange(count)
        equal, compared = np.ones(count), np.ones(count)
        for bits, matches in self._classes:
            found, inside = matches.parts(members(bits)), np.zeros(count, np.int64)
            for place, n in enumerate(members(bits)):
                inside |= (every >> n & 1) << place
            equal *= found[inside]
        for read, passed in self._conditions:
            compared[every & read == read] *= passed
        linking = tuple(bits for bits, _ in self._classes)
        return SetTables(rows, equal, compared, turnover, linking, self._method)

    def _set(self, parts: int) -> _Set:
        found = self._sets.get(parts)
        if found is None:
            found = self._sets[parts] = self._estimated(members(parts))
        return found

    def _estimated(self, numbers: list[int]) -> _Set:
        known, parts = self._statistics, bits_of(numbers)
        rows, turnover = 1.0, 0.0
        for n in numbers:
            alias = self.names[n]
            held = max(known.window_rows.get(alias, 0.0), 1e-9)
            rows *= held * known.passing.get(alias, 1.0)
            turnover += known.rows_per_s.get(alias, 0.0) / held
        equal = 1.0
        for bits, matches in self._classes:
            inside = members(bits & parts)
            if len(inside) > 1:
                equal *= matches.part(inside)
        compared = prod(p for read, p in self._conditions if not read & ~parts)
        return _Set(rows, equal, compared, turnover)

    def _matches(self, group: int, bits: int) -> Matches[int]:
        values = {n: self._statistics.values.get((group, self.names[n]), Values(DISTINCT)) for n in members(bits)}
        return Matches(values)
