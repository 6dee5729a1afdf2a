"""Order joins with modes: the cheapest join trees of a graph's parts, its anti-joins placed, its modes assigned.

For every set of parts, and every set of anti-joins already done on it, the cheapest tree that gives a delta and the
cheapest that gives the complete relation are kept. Sets that no condition holds together are joined only when there is
no other way. A difference above parts it was below is one more way to give a set: whoever searches says what it costs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import inf

from midstream.model.statistics import Size
from midstream.optimize.hopping.candidates import Best, Candidate, Kind, Pricing, keep, kind_of, scaled, times
from midstream.optimize.hopping.cost import ANTI, anti_cost, is_key
from midstream.optimize.hopping.estimate import Conditions, across
from midstream.optimize.hopping.graph import Difference, Graph, reads
from midstream.optimize.hopping.join_order import JoinOrder, streams_in
from midstream.optimize.search import MOST_PARTS, Split, bits_of, greedy, members, splits
from midstream.plan.algebra import Anti, Join, Rel
from midstream.plan.expr import Call, Column, Expr

MOST_SETS = 1 << MOST_PARTS + 1
"""Sets of more than MOST_PARTS parts that conditions hold together; if there are more, parts are joined greedily."""

Pulled = Callable[[int, int], Iterable[tuple[int, Candidate]]]
"""The differences above all other parts of a set, below which anti-joins are done; each with its number."""
_State = tuple[int, int]
"""Parts that are joined and anti-joins that are done, as bits."""


class OrderJoins:
    """The search for the cheapest trees of one graph, and of sets of its parts.

    `parts`: candidates under the conditions on them alone, of sizes `own`. `rights`: of the anti-joins' right sides.
    `deepest`: an anti-join is done as soon as its columns are there, not wherever it is cheapest. What costs more than
    `limit` is left out. `said`: the order is that, and nothing else.
    """

    def __init__(
        self,
        graph: Graph,
        parts: Sequence[Mapping[Kind, Candidate]],
        own: Sequence[Size],
        rights: Sequence[Sequence[Candidate]],
        price: Pricing,
        deepest: bool = False,
        limit: float = inf,
        said: JoinOrder | None = None,
    ) -> None:
        self.graph, self.parts, self.own, self.rights = graph, parts, own, rights
        self.price, self.deepest, self.limit = price, deepest, limit
        self.pulled: Pulled = lambda parts, done: ()
        self.joins = 0
        owners = graph.owners()
        self.conjuncts = [(bits_of(reads(owners, [c])), c, _sides(c, owners)) for c in across(graph)]
        self.needed = [bits_of(reads(owners, a.conjuncts)) or 1 for a in graph.antis]
        self.distinct = {name: d for size in own for name, d in size.distinct.items()}
        common = price.sizes.common(graph.parts, self.distinct)
        between = ((bits, c) for bits, c, _ in self.conjuncts)
        self._conditions = Conditions(between, price.sizes.statistics, self.distinct, common)
        self._least = [
            0.0
            if isinstance(part, Difference)
            else min((c.least + price.read_by_join(c.size) for c in mine.values()), default=inf)
            for part, mine in zip(graph.parts, parts, strict=True)
        ]
        self._size: dict[_State, Size] = {}
        self._passing: dict[tuple[Expr, ...], float] = {}
        self._found: dict[_State, dict[tuple[Kind, int], Candidate]] = {}
        self._joinable: dict[_State, dict[Kind, Candidate]] = {}
        self._held: dict[int, bool] = {}
        self._said, self._streams = said, [streams_in(part) for part in graph.parts]
        self.greedy = said is None and len(parts) > MOST_PARTS and self._many()
        self._chosen = {a | b: (a, b) for a, b in greedy(len(parts), self._rank)} if self.greedy else {}

    def found(self, parts: int, done: int) -> dict[tuple[Kind, int], Candidate]:
        """Return the cheapest trees of a set of parts with anti-joins done, each kind by itself.

        A tree whose top is a difference above all other parts is one by itself, under 1 + the difference's number: it
        gives its columns in its own order.
        """
        state = (parts, done)
        if state not in self._found:
            every = self._search(parts, done)
            most = self.limit - self._rest(parts)
            self._found[state] = {kind: c for kind, c in every.items() if c.least <= most}
        return self._found[state]

    def _search(self, parts: int, done: int) -> dict[tuple[Kind, int], Candidate]:
        best: dict[tuple[Kind, int], Best] = {}
        if parts & (parts - 1):
            for a, b in self._splits(parts):
                self._join(best, a, b, done)
        for k in members(done):
            if not self.needed[k] & ~parts:
                self._without(best, parts, done, k)
        found = {kind: Candidate(b.size, b.ways) for kind, b in best.items()}
        if not parts & (parts - 1):
            if not done:
                found = {(kind, 0): c for kind, c in self.parts[parts.bit_length() - 1].items()}
            return found
        for number, candidate in self.pulled(parts, done):
            keep(found, (kind_of(candidate.size, self.size(parts, done)), number + 1), candidate)
        return found

    def _to_join(self, parts: int, done: int) -> dict[Kind, Candidate]:
        """Return the trees of a set that are joined further."""
        state = (parts, done)
        if state not in self._joinable:
            joinable = self._joinable[state] = {}
            due = bits_of(k for k, needed in enumerate(self.needed) if not needed & ~parts)
            if not done & ~due and (done == due or not self.deepest):
                for (kind, _), candidate in self.found(parts, done).items():
                    keep(joinable, kind, candidate)
        return self._joinable[state]

    def _join(self, best: dict[tuple[Kind, int], Best], a: int, b: int, done: int) -> None:
        rest = tuple(c for bits, c, sides in self.conjuncts if _tested(bits, sides, a, b))
        passed = self._passed(rest)
        most = self.limit - self._rest(a | b)
        make, other = partial(self._joined, a, b), partial(self._joined, b, a)
        for done_a, done_b in _dealt(done):
            for kind_a, x in self._to_join(a, done_a).items():
                for kind_b, y in self._to_join(b, done_b).items():
                    if x.least + y.least > most:
                        continue
                    self.joins += 1
                    into = self._best(best, times(kind_a, kind_b), 0, a | b, done)
                    own, turned = self.price.join(x.size, y.size, into.size, len(rest), passed)
                    into.offer(own, (y.ways, x.ways) if turned else (x.ways, y.ways), other if turned else make)

    def _without(self, best: dict[tuple[Kind, int], Best], parts: int, done: int, k: int) -> None:
        before = done ^ 1 << k
        anti = self.graph.antis[k]
        c, price = self.price.constants.of(ANTI), self.price
        one = Size(1.0, 0.0, 0.0, 0.0, self.distinct)
        make = partial(Anti, conjuncts=anti.conjuncts)
        for right in self.rights[k]:
            rest, pairs = self._anti_pairs(k, right.size)
            own_kind = kind_of(price.sizes.without(one, anti, right.size), price.sizes.without(one, anti))
            for (kind, alone), left in self.found(parts, before).items():
                into = self._best(best, times(kind, own_kind), alone, parts, done)
                sizes = (left.size, right.size)
                own = {g: anti_cost(g == "D", *sizes, into.size, rest, pairs, c).total for g in "DC"}
                own["D"] += price.by_tuple(ANTI, sizes, into.size)
                into.offer(own, (left.ways, right.ways), make)

    def _rest(self, parts: int) -> float:
        """Return what the other parts cost at least, wherever they are joined."""
        return sum(least for n, least in enumerate(self._least) if not parts >> n & 1)

    def _best(self, best: dict[tuple[Kind, int], Best], kind: Kind, alone: int, parts: int, done: int) -> Best:
        into = best.get((kind, alone))
        if into is None:
            into = best[kind, alone] = Best(scaled(self.size(parts, done), kind), self.price.constants)
        return into

    def _anti_pairs(self, k: int, right: Size) -> tuple[int, float]:
        anti = self.graph.antis[k]
        mine, its = set(self.graph.owners()), set(anti.right.columns)
        keys = [c for c in anti.conjuncts if is_key(c, mine, its)]
        return len(anti.conjuncts) - len(keys), self.price.sizes.passing(keys, {**self.distinct, **right.distinct})

    def _passed(self, rest: tuple[Expr, ...]) -> float:
        if rest not in self._passing:
            self._passing[rest] = self.price.sizes.passing(rest, self.distinct)
        return self._passing[rest]

    def size(self, parts: int, done: int) -> Size:
        """Return the size of a join of parts, less what anti-joins leave out, with every difference where it stands."""
        state = (parts, done)
        if state not in self._size:
            self._size[state] = self.block(parts, done, self.own)
        return self._size[state]

    def block(self, parts: int, done: int, own: Sequence[Size]) -> Size:
        """Return the size of a join of parts that have these sizes."""
        sizes, chosen = self.price.sizes, members(parts)
        size = sizes.joined([own[i] for i in chosen], self._conditions.passing(parts), self.distinct)
        antis = [self.graph.antis[k] for k in members(done)]
        for anti in antis:
            size = sizes.without(size, anti)
        if not sizes.statistics.measured:
            return size
        owners = self.graph.owners()
        within = [c for c in self.graph.conjuncts if not bits_of(reads(owners, [c])) & ~parts]
        return sizes.seen(size, [self.graph.parts[i] for i in chosen], within, antis)

    def _joined(self, a: int, b: int, left: Rel, right: Rel) -> Rel:
        between = (c for bits, c, _ in self.conjuncts if bits & a and bits & b and not bits & ~(a | b))
        return Join(left, right, tuple(between))

    def _splits(self, parts: int) -> Iterator[Split]:
        """Yield the sets of a last join: both held together, or all that conditions hold together."""
        if self._said is not None:
            chosen = members(parts)
            first, _ = self._said.halves(frozenset[str]().union(*(self._streams[n] for n in chosen)))
            a = bits_of(n for n in chosen if self._streams[n] <= first)
            yield a, parts ^ a
            return
        if self.greedy:
            yield from [self._chosen[parts]] if parts in self._chosen else []
            return
        pieces = self._pieces(parts)
        if len(pieces) > 1:
            for a, b in splits((1 << len(pieces)) - 1):
                yield sum(pieces[i] for i in members(a)), sum(pieces[i] for i in members(b))
            return
        for a, b in splits(parts):
            if self._is_held(a) and self._is_held(b):
                yield a, b

    def _is_held(self, parts: int) -> bool:
        """Tell whether conditions hold parts together."""
        if parts not in self._held:
            self._held[parts] = self._reached(parts) == parts
        return self._held[parts]

    def _pieces(self, parts: int) -> list[int]:
        found = []
        while parts:
            found.append(self._reached(parts))
            parts ^= found[-1]
        return found

    def _reached(self, parts: int) -> int:
        """Return what conditions hold together with the first of some parts."""
        found, more = 0, parts & -parts
        while more != found:
            found = more
            for bits, _, _ in self.conjuncts:
                if bits & found:
                    more |= bits & parts
        return found

    def _many(self) -> bool:
        """Tell whether conditions hold too many sets of parts together for all of them."""
        sets = {1 << n for n in range(len(self.parts))}
        new = sets
        while new and len(sets) <= MOST_SETS:
            links = [bits for bits, _, _ in self.conjuncts]
            near = {s: sum({1 << n for bits in links if bits & s for n in members(bits & ~s)}) for s in new}
            new = {s | 1 << n for s, others in near.items() for n in members(others)} - sets
            sets |= new
        return len(sets) > MOST_SETS

    def _rank(self, a: int, b: int) -> tuple[bool, float]:
        """Rank a join of two sets: those that a condition holds together first, by the size of what is left."""
        linked = any(bits & a and bits & b for bits, _, _ in self.conjuncts) and self._is_held(a | b)
        due = bits_of(k for k, needed in enumerate(self.needed) if not needed & ~a or not needed & ~b)
        return not linked, self.size(a | b, due).complete


def _dealt(done: int) -> Iterator[Split]:
    """Yield the ways to do anti-joins on either side of a join."""
    some = done
    while True:
        yield some, done ^ some
        if not some:
            return
        some = (some - 1) & done


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
