"""Order joins with modes: the cheapest join tree of a graph's parts, its anti-joins placed, its modes assigned.

For every set of parts, and every set of anti-joins already done on it, the cheapest tree that gives a delta and the
cheapest that gives the complete relation are kept. Sets that no condition holds together are joined only when there is
no other way. Greedily, the two trees whose join is smallest are joined.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from midstream.model.statistics import Size
from midstream.optimize.hopping.assign_modes import Planned, Ways
from midstream.optimize.hopping.cost import ANTI, JOIN, Constants, anti_cost, conversion_cost, is_key, join_cost
from midstream.optimize.hopping.estimate import Sizes, across
from midstream.optimize.hopping.graph import Graph, reads
from midstream.optimize.search import Split, bits_of, members, search
from midstream.plan.algebra import Anti, Join, Rel
from midstream.plan.expr import Call, Column, Expr
from midstream.plan.modes import MODES


@dataclass(frozen=True)
class _Step:
    """The last operator of the cheapest tree of a state: what it reads and in which mode; none: the part itself."""

    cost: float
    below: tuple["_State", ...] = ()
    mode: str = ""


_State = tuple[int, int]
"""Parts that are joined and anti-joins that are done, as bits."""


class OrderJoins:
    """The search for the cheapest tree of one graph, whose parts and right sides are planned already.

    `deepest`: an anti-join is done as soon as its columns are there, not wherever it is cheapest.
    """

    def __init__(
        self,
        graph: Graph,
        parts: Sequence[tuple[Size, Ways]],
        rights: Sequence[tuple[Size, Ways]],
        sizes: Sizes,
        constants: Constants,
        deepest: bool = False,
    ) -> None:
        self.graph, self.parts, self.rights = graph, parts, rights
        self.sizes, self.constants, self.deepest = sizes, constants, deepest
        owners = graph.owners()
        self.conjuncts = [(bits_of(reads(owners, [c])), c, _sides(c, owners)) for c in across(graph)]
        self.antis = [bits_of(reads(owners, a.conjuncts)) or 1 for a in graph.antis]
        self.distinct = {name: d for size, _ in parts for name, d in size.distinct.items()}
        self._size: dict[_State, Size] = {}
        self._passing: dict[tuple[Expr, ...], float] = {}
        self.best: dict[_State, dict[str, _Step]] = {}

    def ways(self) -> Ways:
        """Return the cheapest trees of the whole graph."""
        everything = (1 << len(self.parts)) - 1
        for number, (_, ways) in enumerate(self.parts):
            self.best[(1 << number, 0)] = {give: _Step(way.cost) for give, way in ways.items()}
            self._without(1 << number)
        search(len(self.parts), self._build, self._rank, self._together)
        done = (everything, (1 << len(self.antis)) - 1)
        return {give: self._planned(done, give) for give in "DC"}

    def _together(self, parts: int) -> bool:
        """Tell whether conditions hold parts together, or else they are all that conditions hold together."""
        return self._reached(parts, parts & -parts) == parts or self._closed(parts)

    def _reached(self, parts: int, start: int) -> int:
        found = start
        while True:
            more = found
            for bits, _, _ in self.conjuncts:
                if bits & found:
                    more |= bits & parts
            if more == found:
                return found
            found = more

    def _closed(self, parts: int) -> bool:
        return all(bits & parts in (0, bits) for bits, _, _ in self.conjuncts)

    def _build(self, parts: int, ways: Iterable[Split]) -> None:
        """Find the cheapest last operator of a set of parts, for every set of anti-joins done by then."""
        for left, right in ways:
            for a in self._starts(left):
                for b in self._starts(right):
                    self._try_join(a, b)
        self._without(parts)

    def _rank(self, a: int, b: int) -> tuple[bool, float]:
        """Rank a join of two sets: those that a condition holds together first, by the size of what is left."""
        linked = any(bits & a and bits & b for bits, _, _ in self.conjuncts) and self._together(a | b)
        done = max(s[1] for s in self._starts(a)) | max(s[1] for s in self._starts(b))
        return not linked, self.size((a | b, done)).complete

    def _starts(self, parts: int) -> list[_State]:
        """Return the states of a set of parts that are joined further."""
        states = [(parts, done) for done in range(1 << len(self.antis)) if (parts, done) in self.best]
        if not self.deepest:
            return states
        due = bits_of(k for k, needed in enumerate(self.antis) if needed & ~parts == 0)
        return [s for s in states if s[1] == due]

    def _try_join(self, a: _State, b: _State) -> None:
        state = (a[0] | b[0], a[1] | b[1])
        out = self.size(state)
        left, right = self.size(a), self.size(b)
        rest = tuple(c for bits, c, sides in self.conjuncts if _tested(bits, sides, a[0], b[0]))
        passed = self._passed(rest)
        c = self.constants.of(JOIN)
        for one, other, x, y in ((a, b, left, right), (b, a, right, left)):
            own = [join_cost(delta, x, y, out, len(rest), passed, c).total for delta in (True, False)]
            self._offer(state, (one, other), own, out)

    def _without(self, parts: int) -> None:
        """Do anti-joins on a set of parts, in every order."""
        for done in range(1 << len(self.antis)):
            if (parts, done) not in self.best:
                continue
            for k, needed in enumerate(self.antis):
                if not done >> k & 1 and needed & ~parts == 0:
                    self._try_anti((parts, done), k)

    def _try_anti(self, below: _State, k: int) -> None:
        state = (below[0], below[1] | 1 << k)
        out, left, (right, ways) = self.size(state), self.size(below), self.rights[k]
        rest, pairs = self._anti_pairs(k, right)
        c = self.constants.of(ANTI)
        own = [anti_cost(d, left, right, out, rest, pairs, c).total for d in (True, False)]
        self._offer(state, (below,), own, out, ways)

    def _anti_pairs(self, k: int, right: Size) -> tuple[int, float]:
        anti = self.graph.antis[k]
        mine, its = set(self.graph.owners()), set(anti.right.columns)
        keys = [c for c in anti.conjuncts if is_key(c, mine, its)]
        return len(anti.conjuncts) - len(keys), self.sizes.passing(keys, {**self.distinct, **right.distinct})

    def _offer(
        self,
        state: _State,
        below: tuple[_State, ...],
        own: list[float],
        out: Size,
        ways: Ways | None = None,
    ) -> None:
        """Keep an operator in a mode if nothing cheaper gives the same."""
        best = self.best.setdefault(state, {})
        for mode in MODES:
            reading = sum(self.best[s][mode[0]].cost for s in below) + (ways[mode[0]].cost if ways else 0.0)
            total = own[mode[0] == "C"] + conversion_cost(mode, out, self.constants).total + reading
            if mode[2] not in best or total < best[mode[2]].cost:
                best[mode[2]] = _Step(total, below, mode)

    def _passed(self, rest: tuple[Expr, ...]) -> float:
        if rest not in self._passing:
            self._passing[rest] = self.sizes.passing(rest, self.distinct)
        return self._passing[rest]

    def size(self, state: _State) -> Size:
        """Return the size of a join of parts, less what anti-joins leave out."""
        found = self._size.get(state)
        if found is None:
            antis = [a for k, a in enumerate(self.graph.antis) if state[1] >> k & 1]
            found = self.sizes.block(self.graph, [s for s, _ in self.parts], members(state[0]), antis)
            self._size[state] = found
        return found

    def _planned(self, state: _State, give: str) -> Planned:
        """Build the cheapest tree of a state."""
        step = self.best[state][give]
        if not step.below:
            return self.parts[state[0].bit_length() - 1][1][give]
        below = [self._planned(s, step.mode[0]) for s in step.below]
        modes = [m for p in below for m in p.modes]
        if len(below) == 1:
            k = (state[1] ^ step.below[0][1]).bit_length() - 1
            right = self.rights[k][1][step.mode[0]]
            rel: Rel = Anti(below[0].rel, right.rel, self.graph.antis[k].conjuncts)
            return Planned(step.cost, rel, (*modes, *right.modes, step.mode))
        a, b = step.below[0][0], step.below[1][0]
        conjuncts = tuple(c for bits, c, _ in self.conjuncts if bits & a and bits & b and bits & ~(a | b) == 0)
        return Planned(step.cost, Join(below[0].rel, below[1].rel, conjuncts), (*modes, step.mode))


def _sides(conjunct: Expr, owners: dict[Column, int]) -> tuple[int, int] | None:
    """Return the parts that the sides of an equality read, or None for another condition."""
    if not isinstance(conjunct, Call) or conjunct.function != "=":
        return None
    a, b = (bits_of(reads(owners, [arg])) for arg in conjunct.args)
    return (a, b) if a and b else None


def _tested(bits: int, sides: tuple[int, int] | None, a: int, b: int) -> bool:
    """Tell whether a condition is one of a join of two sets of parts, but not a key of it."""
    if bits & ~(a | b) or not bits & a or not bits & b:
        return False
    if sides is None:
        return True
    x, y = sides
    return not ((x & ~a == 0 and y & ~b == 0) or (x & ~b == 0 and y & ~a == 0))
