"""What an operator costs per hop in each of its modes, in nanoseconds, from the sizes of its inputs and its output.

Reading deltas, an operator pays for what comes and goes and for the upkeep of its state; reading complete relations,
for all rows every time. Giving what it does not read, it also converts: a cache of its answer, or a comparison with
the last answer. Both inputs are of one kind. Costs of plans for different hops are compared per second: divide by the
hop.

The same step does not take the same time everywhere: operators hold different things in different memory. So a machine
has constants for all, and where an operator was measured by itself, its own. Reading a window and converting an answer
are the same work for all, and cost the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from midstream.model.statistics import Size
from midstream.optimize.hopping.counts import present
from midstream.optimize.hopping.estimate import Sizes
from midstream.plan.algebra import (
    Anti,
    Distinct,
    Except,
    Group,
    Join,
    Project,
    Rel,
    Scan,
    Select,
    Union,
    inputs,
)
from midstream.plan.expr import Call, Column, Expr, columns
from midstream.plan.modes import TUPLE

MOST_KEPT = 1 << 22
"""Tuples of an answer that may be kept to convert it: some hundred megabytes."""
CROWDED = 1000.0
"""Nanoseconds for each tuple kept beyond that: of a join there may be more than memory holds."""


@dataclass(frozen=True)
class Constants:
    """Nanoseconds for one of each, as measured once; those of a machine are measured elsewhere."""

    insert: float = 5.0
    """Put a tuple into a state that is kept."""
    build: float = 25.0
    """Put a tuple into a hash table that is made anew at every hop."""
    lookup: float = 10.0
    """Look for a tuple in a hash table."""
    fetch: float = 13.0
    """Bring a tuple that is found into the processor's cache; those found again are there."""
    concatenate: float = 6.0
    """Make a pair of two tuples."""
    purge: float = 50.0
    """Move a tuple that stays, when those whose time is over are removed."""
    scan: float = 5.0
    """Look at the end of a tuple in a state, at every hop."""
    read: float = 2.0
    """Take a tuple out of the window of a stream; the same for whoever reads it."""
    copy: float = 6.0
    """Hand a tuple over."""
    select: float = 8.0
    """Test a condition on a tuple."""
    project: float = 5.0
    """Make a tuple of a tuple."""
    union: float = 2.0
    """Hand over a tuple of either side."""
    value: float = 20.0
    """Find a tuple's value and count it, in a state that is kept."""
    fresh: float = 45.0
    """Make room for a value that was not there, and forget it when it is gone."""
    ended: float = 10.0
    """Count a value down whose tuple has ended, and see what that changes."""
    compare: float = 18.0
    """Find a tuple's value among those of this hop."""
    match: float = 23.0
    """Look for a tuple of one answer in another."""
    pick: float = 12.0
    """Take a tuple that is new, or has gone, out of an answer."""
    cache: float = 5.0
    """Put a tuple into a cache of an answer."""
    uncache: float = 100.0
    """Find a tuple that has gone in a cache or a state, and remove it."""
    hold: float = 7.0
    """Keep a tuple in a cache, and hand it over, at every hop."""
    group: float = 4.0
    """Bring a tuple into an aggregate."""
    regroup: float = 19.0
    """Look at a tuple that a group-by holds, at every hop, for whether its group is computed anew."""
    arrival: float = 200.0
    """Work on a tuple by itself, as it comes, instead of on all at the hop."""
    fixed: float = 20_000.0
    """Call an operator at a hop."""
    own: Mapping[str, "Constants"] = field(default_factory=dict)
    """Those of single operators, by what they are called."""

    def of(self, operator: str) -> "Constants":
        """Return the constants of an operator, by what it is called."""
        return self.own.get(operator, self)

    def but(self, numbers: Mapping[str, float]) -> "Constants":
        """Return the same with other numbers, by their names."""
        changed: dict[str, Any] = dict(numbers)
        return replace(self, **changed)


JOIN, ANTI, UNION, SELECT, PROJECT, DISTINCT = "join", "anti-join", "union", "select", "project", "distinct"
DIFFERENCE, DIFFERENCE_OF_BAGS, GROUP, GROUP_ANEW = "difference", "difference of bags", "group", "group anew"
"""What operators are called when they are measured."""
NUMBERS = tuple(f.name for f in fields(Constants) if f.name != "own")
"""What the constants are called."""


def operator_name(node: Rel) -> str:
    """Return what an operator is called when it is measured."""
    match node:
        case Except(all=of_bags):
            return DIFFERENCE_OF_BAGS if of_bags else DIFFERENCE
        case Group(aggregates=aggregates):
            return GROUP if all(a.exact for a in aggregates) else GROUP_ANEW
    return {Join: JOIN, Anti: ANTI, Union: UNION, Select: SELECT, Project: PROJECT, Distinct: DISTINCT}[type(node)]


@dataclass(frozen=True)
class Cost:
    """Nanoseconds per hop, by what they are for."""

    fixed: float = 0.0
    read: float = 0.0
    """Taking rows from the window of a stream."""
    insert: float = 0.0
    probe: float = 0.0
    concatenate: float = 0.0
    purge: float = 0.0
    """Removing what was taken back or is over, and looking for it."""
    evaluate: float = 0.0
    """Conditions, projections, aggregates, and handing over."""
    conversion: float = 0.0
    flips: float = 0.0
    """Decisions on single tuples, some of them taken back in the same hop."""
    emission: float = 0.0
    """Telling what has come and gone to those outside, who do not know when tuples end."""

    @property
    def total(self) -> float:
        """Return the nanoseconds in all."""
        held = self.insert + self.probe + self.concatenate + self.purge
        return self.fixed + self.read + held + self.evaluate + self.conversion + self.flips + self.emission

    @property
    def parts(self) -> dict[str, float]:
        """Return what is not zero, by name."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: part for name, part in found.items() if part}

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def cost(node: Rel, mode: str, working: str, sizes: Sizes, constants: Constants, emitted: bool = False) -> Cost:
    """Return what an operator costs per hop; `emitted`: its deltas are what the query gives."""
    below = inputs(node)
    parts = [sizes.of(b) for b in below]
    given = sizes.of(node)
    delta = mode[0] == "D"
    own = _own_cost(node, delta, parts, given, sizes, constants)
    for child, size in zip(below, parts, strict=True):
        if isinstance(child, Scan):
            own += read_cost(delta, size, constants)
    if delta and working == TUPLE:
        name = operator_name(node)
        own += by_tuple_cost(name, parts, given, constants.of(name))
    if emitted:
        own += emission_cost(mode, given, constants)
    return own + conversion_cost(mode, given, constants)


def _own_cost(node: Rel, delta: bool, below: Sequence[Size], out: Size, sizes: Sizes, constants: Constants) -> Cost:
    """Return what it costs an operator to compute its answer from inputs of given sizes, deltas or complete."""
    name = operator_name(node)
    c = constants.of(name)
    match node, below:
        case Join(left, right, conjuncts), (a, b):
            rest = [c for c in conjuncts if not is_key(c, set(left.columns), set(right.columns))]
            passed = sizes.passing(rest, {**a.distinct, **b.distinct})
            return join_cost(delta, a, b, out, len(rest), passed, c)
        case Anti(left, right, conjuncts), (a, b):
            keys = [c for c in conjuncts if is_key(c, set(left.columns), set(right.columns))]
            pairs = sizes.passing(keys, {**a.distinct, **b.distinct})
            return anti_cost(delta, a, b, out, len(conjuncts) - len(keys), pairs, c)
        case Select(_, conjuncts), _:
            return step_cost(name, delta, below, out, c, len(conjuncts))
        case Group(_, _, _, aggregates), _:
            return step_cost(name, delta, below, out, c, len(aggregates))
    return step_cost(name, delta, below, out, c)


def step_cost(name: str, delta: bool, below: Sequence[Size], out: Size, c: Constants, count: int = 1) -> Cost:
    """Return the cost of an operator that is no join, by what it is called; of how many conditions or aggregates."""
    read = sum(s.delta if delta else s.complete for s in below)
    match name:
        case "difference" | "difference of bags":
            return _except_cost(delta, below[0], below[1], out, c)
        case "distinct":
            # A set is a difference with nothing on the right.
            return _except_cost(delta, below[0], Size(0.0, 0.0, 0.0, 0.0), out, c)
        case "group" | "group anew":
            return _group_cost(delta, below[0], out, name == GROUP, count, c)
    each = {UNION: c.union, SELECT: c.select * count, PROJECT: c.project}[name]
    return Cost(c.fixed, evaluate=each * read)


def is_key(conjunct: Expr, lefts: set[Column], rights: set[Column]) -> bool:
    """Tell whether rows are found by a condition: an equality of something on the left and something on the right."""
    if not isinstance(conjunct, Call) or conjunct.function != "=":
        return False
    a, b = (set(columns(arg)) for arg in conjunct.args)
    return bool(a and b) and ((a <= lefts and b <= rights) or (a <= rights and b <= lefts))


def read_cost(delta: bool, size: Size, c: Constants) -> Cost:
    """Return what it costs to take a scan's rows: a delta is copied, a window is handed over as it is."""
    return Cost(read=c.read * size.delta if delta else 0.0)


def conversion_cost(mode: str, out: Size, c: Constants) -> Cost:
    """Return what it costs to give what is not computed: a cache brought up to date, or a comparison of two answers."""
    crowded = CROWDED * max(0.0, out.complete - MOST_KEPT)
    if mode == "DICO":
        # A cache holds what is valid and nothing else: whatever stays is moved at every hop.
        return Cost(conversion=c.cache * out.positive + c.uncache * out.negative + c.hold * out.complete + crowded)
    if mode == "CIDO":
        return Cost(conversion=2 * c.match * out.complete + c.pick * out.delta + crowded)
    return Cost()


def emission_cost(mode: str, out: Size, c: Constants) -> Cost:
    """Return what it costs to give deltas to those outside: the net change, what has ended by its time included.

    Who compares answers has the net change already; and what never ends by itself need not be held.
    """
    if mode != "DIDO":
        return Cost()
    held = c.cache * out.positive + c.uncache * out.negative + c.hold * out.complete if out.matured else 0.0
    return Cost(emission=c.match * (out.delta + out.matured) + held)


def _upkeep(sides: Sequence[Size], c: Constants) -> float:
    """Return what it costs to find in states what was taken back, and to look for what is over."""
    return sum(c.uncache * s.negative + c.purge * s.moved + c.scan * s.complete for s in sides)


def join_cost(delta: bool, a: Size, b: Size, out: Size, tests: int, passed: float, c: Constants) -> Cost:
    """Return the cost of a hash join; of the pairs with equal keys, `tests` conditions pass the part `passed`."""
    each = (c.concatenate + c.select * tests) / passed if passed else 0.0
    if delta:
        found = out.delta / passed / 2 if passed else 0.0
        return Cost(
            c.fixed,
            insert=c.insert * (a.positive + b.positive),
            probe=c.lookup * (a.delta + b.delta) + c.fetch * (_fetched(a, found) + _fetched(b, found)),
            concatenate=each * out.delta,
            purge=_upkeep((a, b), c),
        )
    found = out.complete / passed if passed else 0.0
    probe = c.lookup * a.complete + c.fetch * _fetched(b, found)
    return Cost(c.fixed, insert=c.build * b.complete, probe=probe, concatenate=each * out.complete)


def _fetched(held: Size, found: float) -> float:
    """Return how many tuples of a state are found at all, when some are found several times."""
    return held.complete * present(found / held.complete) if held.complete else 0.0


def anti_cost(delta: bool, a: Size, b: Size, out: Size, tests: int, pairs: float, c: Constants) -> Cost:
    """Return the cost of an anti-join; `pairs`: the part of all pairs that have equal keys."""
    each = (c.concatenate + c.select * tests) * pairs
    if delta:
        moved = b.delta + b.matured
        return Cost(
            c.fixed,
            insert=c.insert * (a.positive + b.positive),
            probe=c.lookup * (a.positive + moved),
            concatenate=each * (a.positive * b.complete + moved * a.complete),
            purge=_upkeep((a, b), c),
            evaluate=c.copy * out.delta,
        )
    seen = each * a.complete * b.complete if tests else 0.0
    copied = c.copy * out.complete
    probe = c.lookup * a.complete
    return Cost(c.fixed, insert=c.build * b.complete, probe=probe, concatenate=seen, evaluate=copied)


def _except_cost(delta: bool, a: Size, b: Size, out: Size, c: Constants) -> Cost:
    """Return the cost of a difference: numbers by value, which are kept, or counted anew."""
    if delta:
        over = sum(c.ended * s.matured + c.scan * s.complete for s in (a, b))
        # As many of the values that come are new as come into the answer; on the right as on the left.
        new = min(1.0, out.positive / a.positive) if a.positive else 0.0
        counted = c.value * (a.delta + b.delta) + c.fresh * new * (a.positive + b.positive)
        return Cost(c.fixed, insert=counted, purge=over, evaluate=c.copy * out.delta)
    return Cost(c.fixed, insert=c.compare * (a.complete + b.complete), evaluate=c.copy * out.complete)


def _group_cost(delta: bool, a: Size, out: Size, exact: bool, aggregates: int, c: Constants) -> Cost:
    """Return the cost of groups: with deltas counts and sums are kept, or the groups that change are computed anew."""
    work = c.group * max(aggregates, 1)
    if delta and exact:
        counted = work * (a.delta + a.matured)
        return Cost(
            c.fixed,
            insert=c.insert * a.positive,
            probe=c.value * a.delta,
            purge=c.ended * a.matured + c.scan * a.complete,
            evaluate=counted + c.copy * out.delta,
        )
    if delta:
        touched = a.complete * (1 - out.old)
        return Cost(
            c.fixed,
            insert=c.insert * a.positive,
            probe=c.value * a.delta,
            purge=_upkeep((a,), c),
            evaluate=c.regroup * a.complete + work * touched + c.copy * out.delta,
        )
    return Cost(c.fixed, probe=c.compare * a.complete, evaluate=work * a.complete)


def by_tuple_cost(name: str, below: Sequence[Size], out: Size, c: Constants) -> Cost:
    """Return what it costs more to decide on every tuple as it comes: at worst every one changes a decision."""
    came = sum(s.delta for s in below)
    turned = 0.0 if name in (JOIN, UNION, SELECT, PROJECT) else max(0.0, came - out.delta)
    return Cost(flips=c.arrival * came + c.copy * turned)
