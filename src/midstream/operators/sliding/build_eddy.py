"""Build an eddy: from a plan to SteMs that can be visited in any order, and the route to begin with."""

from collections.abc import Iterable

import pyarrow as pa

from midstream.kernels.entries import KEY, ROWS
from midstream.kernels.join import EQ
from midstream.model.errors import PlanError
from midstream.model.types import is_exact_code
from midstream.operators.sliding.build import OPS, member_of
from midstream.operators.sliding.eddy import Eddy, PolicyName
from midstream.operators.sliding.stem import Bits, Code, Condition, Stem, StemSpec
from midstream.operators.source.scan import Entry, Leaf
from midstream.operators.source.sources import Sources
from midstream.plan.expr import MIRRORED, Call, Expr, aliases, cast_to
from midstream.plan.plan import Plan
from midstream.plan.predicates import EqualityClass
from midstream.plan.tree import leaves


def build_eddy(plan: Plan, sources: Sources, policy: str = "selectivity") -> Eddy:
    """Make the SteMs of a plan's query over existing sources, empty; the leaves of the plan are the first route."""
    if policy not in list(PolicyName):
        raise PlanError(f"there is no routing policy '{policy}', only: {', '.join(PolicyName)}")
    names = plan.query.aliases
    specs, codes = stem_specs(plan)
    stems = [Stem(specs[a], sources) for a in names] if len(names) > 1 else []
    return Eddy(stems, codes, sources, tuple(leaves(plan.tree)), PolicyName(policy))


def stem_specs(plan: Plan) -> tuple[dict[str, StemSpec], int]:
    """Return what the SteM of each alias does, and how many codes partial results carry besides the key."""
    builder = _StemBuilder(plan)
    return {alias: builder.spec(alias) for alias in plan.query.aliases}, builder.codes


class _StemBuilder:
    """Where partial results carry each code: that of the first equality class as their key, the others after it.

    An equality class has one place for all its members; a side of a comparison has one of its own.
    """

    def __init__(self, plan: Plan) -> None:
        self.names = plan.query.aliases
        self.predicates = plan.predicates
        later = max(0, len(self.predicates.classes) - 1)
        sides = dict.fromkeys((s, c.type) for c in self.predicates.comparisons for s in (c.left, c.right))
        self.codes = later + len(sides)
        self._sides: dict[Entry, int] = {side: ROWS + later + k for k, side in enumerate(sides)}

    def spec(self, alias: str) -> StemSpec:
        """Return what the SteM of an alias does."""
        classes = self._classes(alias)
        sides = [side for side in self._sides if aliases(side[0]) == {alias}]
        keys = tuple(entry for group, entry in classes.items() if group == 0)
        values = tuple(dict.fromkeys([*(e for group, e in classes.items() if group > 0), *sides]))
        held = {entry: ROWS + 1 + k for k, entry in enumerate(values)}
        codes, conditions = [], []
        for group, entry in classes.items():
            code = Code(KEY, KEY) if group == 0 else Code(held[entry], ROWS + group - 1)
            codes.append(code)
            others = self._bits(a for m in self.predicates.classes[group].members for a in aliases(m))
            conditions.append(Condition(others & ~self._bits([alias]), EQ, code.carried, code.held))
        for side in sides:
            codes.append(Code(held[side], self._sides[side]))
        for comparison in self.predicates.comparisons:
            left, right = (comparison.left, comparison.type), (comparison.right, comparison.type)
            for mine, other, op in ((left, right, MIRRORED[comparison.op]), (right, left, comparison.op)):
                if aliases(mine[0]) == {alias}:
                    bits = self._bits(aliases(other[0]))
                    conditions.append(Condition(bits, OPS[op], self._sides[other], held[mine]))
        unsure = [self.predicates.classes[group] for group in classes]
        return StemSpec(
            alias,
            self.names.index(alias),
            Leaf(alias, keys, values),
            tuple(codes),
            tuple(conditions),
            tuple(self._verification(cls, alias) for cls in unsure if not is_exact_code(cls.type)),
            tuple((self._bits(aliases(r)), r) for r in self.predicates.residuals if alias in aliases(r)),
        )

    def _classes(self, alias: str) -> dict[int, Entry]:
        """Return the member of an alias in each equality class that has one."""
        classes = enumerate(self.predicates.classes)
        return {group: entry for group, cls in classes if (entry := member_of(cls, alias)) is not None}

    def _verification(self, cls: EqualityClass, alias: str) -> dict[int, Expr]:
        """Return the equality of an alias's member with that of every other alias, on the values themselves."""
        mine = cls.member_of(frozenset([alias]))
        assert mine is not None, "asked for members only"
        others = {a: m for a in self.names if a != alias and (m := cls.member_of(frozenset([a]))) is not None}
        return {
            self.names.index(a): Call("=", (cast_to(m, cls.type), cast_to(mine, cls.type)), pa.bool_())
            for a, m in others.items()
        }

    def _bits(self, names: Iterable[str]) -> Bits:
        return sum(1 << self.names.index(a) for a in set(names))
