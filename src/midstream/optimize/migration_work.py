"""What a migration evaluates while rows from before it matter, and what states hold then, strategy by strategy.

    how likely rows are old, t seconds on ──▶ the part of each join that old and new plan do ──▶ summed over one window

Which pairs a plan evaluates is a matter of what its states have (new plan) or of what is asked of it (old plan):

    moving-state     the missing states at once, then the new plan
    parallel-track   the old plan whole; the new one evaluates pairs of which all rows are new
    hybrid           the old plan what may lie in a region of the characteristics table, the new plan what is in none
    just-in-time     the new plan, and of missing states the keys that come before the entries are over
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from midstream.model.statistics import Statistics
from midstream.optimize.asked_keys import AskedKeys, Asker
from midstream.optimize.join_cost import JoinCost
from midstream.optimize.old_rows import OldRows, Vector
from midstream.optimize.search import members
from midstream.plan.nodes import Join, joins
from midstream.plan.plan import Plan
from midstream.plan.window import RangeWindow

MOVING_STATE, PARALLEL_TRACK, HYBRID, JUST_IN_TIME = "moving-state", "parallel-track", "hybrid", "just-in-time"


@dataclass(frozen=True)
class Done:
    """What a strategy does from the position on until no old row matters, whichever plan does it."""

    at_once: float
    """Predicate evaluations before the next result, or in the first micro-batch, beyond those of the new plan."""
    evaluations: float
    """Predicate evaluations, those of the new plan included."""
    entries: float
    """Entries of missing states that are computed from those below."""
    held: float
    """Live entries in all states, at the moment when there are most."""


@dataclass(frozen=True)
class _Step:
    """A join of a plan: the aliases on both sides, as bits."""

    left: int
    right: int
    join: Join

    @property
    def parts(self) -> int:
        return self.left | self.right

    @property
    def sides(self) -> tuple[int, int]:
        return self.left, self.right


@dataclass(frozen=True)
class _Task:
    """Joins of both plans that share nothing but what comes in and what comes out: see `migrate/decompose.py`."""

    old: tuple[_Step, ...]
    new: tuple[_Step, ...]
    sources: tuple[int, ...]

    def regions(self) -> list[int]:
        """Return what hybrid leaves to the old plan, as aliases whose rows are old: see `migrate/task_run.py`."""
        lowest = [s for s in self.new[:-1] if all(side in self.sources for side in s.sides)]
        if len(lowest) != 1:
            return [step.parts for step in lowest]
        places = {side: place for place, step in reversed([*enumerate(self.old)]) for side in step.sides}
        return [max(lowest[0].sides, key=lambda side: places[side])]


class MigrationWork:
    """Two plans of a query, with what is known of the rows; something must be known of every alias."""

    def __init__(self, running: Plan, target: Plan, statistics: Statistics) -> None:
        self._cost = JoinCost(target.query.aliases, target.predicates, statistics, target.method)
        self._old_cost = JoinCost(running.query.aliases, running.predicates, statistics, running.method)
        self._statistics = statistics
        self._old, self._new = self._steps(running), self._steps(target)
        had = {s.parts for s in self._old}
        self.missing = [(s, side) for s in self._new for side in s.sides if side & (side - 1) and side not in had]
        """States of the new plan that the running one does not have, with the joins that probe them."""
        self._rows = OldRows([_width_s(target, n, statistics) for n in range(len(target.query.sources))])

    @property
    def lasts_s(self) -> float:
        """Return after how long no old row is expected to matter."""
        return self._rows.lasts_s

    @property
    def new_alone(self) -> float:
        """Return the evaluations of the new plan in that time, had it been running all along."""
        return self.lasts_s * _per_s(self._cost, self._new)

    @property
    def old_alone(self) -> float:
        """Return the evaluations of the running plan in that time."""
        return self.lasts_s * _per_s(self._old_cost, self._old)

    def of(self, strategy: str, batch_s: float | None = None) -> Done:
        """Return what a strategy does; `batch_s` is how long micro-batches are."""
        does: dict[str, Callable[[], Done]] = {
            MOVING_STATE: self._moving_state,
            PARALLEL_TRACK: self._parallel_track,
            HYBRID: self._hybrid,
            JUST_IN_TIME: lambda: self._just_in_time(batch_s or 0.0),
        }
        return does[strategy]()

    def _moving_state(self) -> Done:
        computed = sum(self._pairs_below(state) for _, state in self.missing)
        entries = sum(self._cost.entries(state) for _, state in self.missing)
        return Done(computed, computed + self.new_alone, entries, self._full(self._new))

    def _parallel_track(self) -> Done:
        regions = [1 << n for n in range(len(self._cost.names))]
        evaluations = self.old_alone + sum(self._new_does(step, regions) for step in self._new)
        held = self._full(self._old) + self._new_has(self._new, regions)
        return Done(0.0, evaluations, 0.0, float(held.max()))

    def _hybrid(self) -> Done:
        evaluations, held = 0.0, self._new_has((), ())
        for task in self._tasks():
            regions = task.regions()
            evaluations += sum(self._new_does(step, regions) for step in task.new)
            held = held + self._new_has(task.new, regions)
            if regions:
                evaluations += sum(self._old_does(step, regions) for step in task.old)
                held = held + self._old_needs(task.old, regions)
        return Done(0.0, evaluations, 0.0, float(held.max()))

    def _just_in_time(self, batch_s: float) -> Done:
        at_once = evaluations = entries = 0.0
        keys = AskedKeys(self._cost, self._rows, self._statistics, batch_s)
        above: dict[int, list[Asker]] = {}
        for step, state in reversed(self.missing):
            other = step.right if state == step.left else step.left
            askers = [*above.get(state, ()), Asker(other, self._arriving(other))]
            below = next(s for s in self._new if s.parts == state)
            if step.join.keys:
                asked = keys.by_key(step.join, state, askers)
            else:
                asked = keys.by_touch(step.join, state, below.sides, askers[-1].rate)
            pairs = self._pairs_below(state)
            evaluations += asked.part * pairs + asked.tried
            at_once += asked.soon * pairs + asked.tried_soon
            entries += asked.part * self._cost.entries(state)
            above |= dict.fromkeys(below.sides, askers)
        return Done(at_once, evaluations + self.new_alone, entries, self._full(self._new))

    def _arriving(self, parts: int) -> float:
        """Return how many rows or results come up from some aliases in a second."""
        if parts & (parts - 1):
            return self._cost.rate(parts)
        alias = self._cost.names[members(parts)[0]]
        return self._statistics.rows_per_s.get(alias, 0.0) * self._statistics.passing.get(alias, 1.0)

    def _pairs_below(self, state: int) -> float:
        """Return the evaluations that computing a state of the new plan takes, from those below."""
        below = next(s for s in self._new if s.parts == state)
        return self._cost.pairs(below.left, below.right)

    def _new_does(self, step: _Step, regions: Sequence[int]) -> float:
        """Return what the new plan evaluates of a join: pairs of what its states have."""
        found_s = self._rows.seconds(*step.sides, lambda side, latest: self._rows.outside(side, regions, latest))
        return self._cost.evaluations(*step.sides) * found_s

    def _old_does(self, step: _Step, regions: Sequence[int]) -> float:
        """Return what the old plan evaluates of a join: pairs of what may come to lie in a region."""
        found_s = self._rows.seconds(*step.sides, lambda side, latest: self._rows.may_lie(side, regions, latest))
        return self._old_cost.evaluations(*step.sides) * found_s

    def _full(self, steps: Iterable[_Step]) -> float:
        return sum(self._cost.entries(side) for s in steps for side in s.sides)

    def _new_has(self, steps: Iterable[_Step], regions: Sequence[int]) -> Vector:
        """Return how many entries the new plan's states have, over time."""
        sides = [side for s in steps for side in s.sides]
        return sum((self._cost.entries(s) * self._rows.outside(s, regions) for s in sides), 0 * self._rows.at_s)

    def _old_needs(self, steps: Iterable[_Step], regions: Sequence[int]) -> Vector:
        """Return how many entries the old plan's states are left with, over time."""
        sides = [side for s in steps for side in s.sides]
        return sum((self._old_cost.entries(s) * self._rows.may_lie(s, regions) for s in sides), 0 * self._rows.at_s)

    def _tasks(self) -> Iterator[_Task]:
        """Cut the migration at the joins that both plans have."""
        common = sorted({s.parts for s in self._old} & {s.parts for s in self._new}, key=lambda p: p.bit_count())
        singles = [1 << n for n in range(len(self._cost.names))]
        for parts in common:
            below = [c for c in (*common, *singles) if c != parts and not c & ~parts]
            sources = tuple(c for c in below if not any(c != d and not c & ~d for d in below))
            yield _Task(_between(self._old, parts, sources), _between(self._new, parts, sources), sources)

    def _steps(self, plan: Plan) -> list[_Step]:
        bits = self._cost.bits
        return [_Step(bits(j.left.aliases), bits(j.right.aliases), j) for j in joins(plan.layout)]


def _between(steps: Sequence[_Step], parts: int, sources: Sequence[int]) -> tuple[_Step, ...]:
    """Return the joins between the sources and the result of a task."""
    return tuple(s for s in steps if not s.parts & ~parts and all(s.parts & ~source for source in sources))


def _per_s(cost: JoinCost, steps: Iterable[_Step]) -> float:
    return sum(cost.evaluations(*s.sides) for s in steps)


def _width_s(plan: Plan, n: int, statistics: Statistics) -> float:
    """Return how long a row is in its window."""
    source = plan.query.sources[n]
    if isinstance(source.window, RangeWindow):
        return source.window.width_us / 1e6
    rate = statistics.rows_per_s.get(source.alias, 0.0)
    return statistics.window_rows.get(source.alias, 0.0) / rate if rate else 0.0
