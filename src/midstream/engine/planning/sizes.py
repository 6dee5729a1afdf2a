"""What operators of a running hopping query were seen to give, for the optimizer to use instead of estimates.

    what nodes have lately given, over all buckets ──▶ filled up from the estimate ──▶ measured, by signature

A node that gives deltas does not show how large its relation is, one that gives it whole not what came and went: the
estimate says so, in proportion to what was seen. What ran earlier is remembered by how far it was from the estimate:
without that a plan would look better as soon as it does not run any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from midstream.model.statistics import Size, Statistics
from midstream.operators.hopping.node import OperatorStatistics
from midstream.optimize.hopping.estimate import Sizes, signature
from midstream.plan.algebra import Rel, operators
from midstream.plan.plan import Plan

REMEMBERED = 64
"""How many relations are remembered."""
FIELDS = ("complete", "positive", "negative", "matured")


@dataclass(frozen=True)
class Seen:
    """A relation as it was seen, and as it was expected at the time."""

    rel: Rel
    measured: Size
    expected: Size

    def now(self, sizes: Sizes) -> Size:
        """Return it as it would be seen now: as far from the estimate as it was then."""
        expected = sizes.of(self.rel)
        found = {}
        for name in FIELDS:
            then, seen = getattr(self.expected, name), getattr(self.measured, name)
            found[name] = seen * getattr(expected, name) / then if then else seen
        return Size(**found, hop_us=sizes.hop_us)


class SeenSizes:
    """Remembers relations by their signature, those seen last after the others."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}

    def see(self, plan: Plan, given: Sequence[OperatorStatistics | None], statistics: Statistics) -> Statistics:
        """Take what the operators of a plan have given, in its order; return statistics that know of it."""
        sizes = Sizes.of_query(plan.query, statistics)
        together: dict[str, tuple[Rel, OperatorStatistics]] = {}
        for rel, mine in zip(operators(plan.root), given, strict=True):
            text = signature(rel, statistics)
            if mine is None or text in statistics.window_rows:
                continue
            known = together.get(text)
            # A projection gives what is below it: one of them may show what the other does not.
            together[text] = (rel, mine if known is None else _both(known[1], mine))
        for text, (rel, mine) in together.items():
            expected = sizes.of(rel)
            self._seen.pop(text, None)
            self._seen[text] = Seen(rel, filled(mine, expected, sizes.hop_us), expected)
        while len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return replace(statistics, measured={text: seen.now(sizes) for text, seen in self._seen.items()})


def _both(a: OperatorStatistics, b: OperatorStatistics) -> OperatorStatistics:
    """Return what either of two nodes over the same relation shows."""
    names = ("complete", "kept", "came", "went", "ended")
    return replace(a, **{n: getattr(a, n) if getattr(a, n) is not None else getattr(b, n) for n in names})


def filled(given: OperatorStatistics, expected: Size, hop_us: int) -> Size:
    """Return what was seen of a relation, filled up from the estimate in proportion.

    >>> filled(OperatorStatistics(8, 30.0, None, None, None, None), Size(10.0, 2.0, 1.0, 1.0), 1)
    Size(complete=30.0, positive=6.0, negative=3.0, matured=3.0, hop_us=1)
    """
    complete = given.complete
    if complete is None and not expected.matured:
        complete = given.kept
    if given.came is None or given.went is None:
        assert complete is not None, "a node shows its relation, or what comes and goes"
        return replace(expected.scaled(complete), hop_us=hop_us)
    # One more of both: that nothing came of few that were expected says little.
    part = (given.hops * given.came + 1) / (given.hops * expected.positive + 1)
    if complete is None:
        complete = max(part * expected.complete, given.came)
    ended = part * expected.matured if given.ended is None else given.ended
    return Size(complete, given.came, given.went, ended, hop_us=hop_us)


def summed(given: Sequence[Sequence[OperatorStatistics | None]]) -> list[OperatorStatistics | None]:
    """Return what the operators of all buckets have given together; buckets run the same plan."""
    return [_sum([g for g in mine if g is not None]) for mine in zip(*given, strict=True)]


def _sum(given: Sequence[OperatorStatistics]) -> OperatorStatistics | None:
    if not given:
        return None

    def total(name: str) -> float | None:
        values = [v for g in given if (v := getattr(g, name)) is not None]
        return sum(values) if values else None

    hops = max(g.hops for g in given)
    return OperatorStatistics(hops, total("complete"), total("kept"), total("came"), total("went"), total("ended"))
