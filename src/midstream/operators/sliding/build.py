"""Build sliding joins: from a query to its sources, from a plan to its joins."""

import pyarrow as pa

from midstream.kernels.join import EQ, GE, GT, LE, LT, NE
from midstream.model.types import is_exact_code
from midstream.operators.sliding.check import check_of
from midstream.operators.sliding.feed import Feed, StoredCode
from midstream.operators.sliding.join import Join, JoinSpec
from midstream.operators.sliding.join_state import JoinInputState
from midstream.operators.sliding.tree import Input, JoinTree, Step
from midstream.operators.source.scan import Entry, Leaf, Scan, ScanSpec
from midstream.operators.source.sources import Sources
from midstream.operators.source.window import EvictionTable
from midstream.plan import nodes
from midstream.plan.expr import Call, Expr, aliases, cast_to, columns
from midstream.plan.nodes import Node, joins, lay_out
from midstream.plan.plan import Plan
from midstream.plan.predicates import EqualityClass
from midstream.plan.window import RowsWindow

OPS = {"=": EQ, "<>": NE, "<": LT, "<=": LE, ">": GT, ">=": GE}


def build_sources(plan: Plan, keep_offsets: bool, watched: bool = False) -> Sources:
    """Make the scans of a plan's query: the same for every plan of that query; `watched` for statistics."""
    query, predicates = plan.query, plan.predicates
    joined = len(query.aliases) > 1
    counted = [s.alias for s in query.sources if isinstance(s.window, RowsWindow) and joined]
    lines = {alias: k for k, alias in enumerate(counted)}
    evictions = EvictionTable(len(counted))
    stored = {alias: _stored(plan, alias) for alias in query.aliases}
    unsure = [cast_to(m, c.type) for c in predicates.classes if not is_exact_code(c.type) for m in c.members]
    needed = {c for e in (*query.parts.first.values, *predicates.residuals, *unsure) for c in columns(e)}
    scans = {}
    for source in query.sources:
        names = source.stream.columns.names
        wanted = {c.name for c in needed if c.alias == source.alias}
        held = {n: source.stream.type_of(n) for n in names if n in wanted}
        line = lines.get(source.alias, -1)
        filters = predicates.filters[source.alias]
        spec = ScanSpec(
            source.alias, source.position, source.window, filters, held, stored[source.alias], line, keep_offsets,
            tuple(e for e in _compared(plan, source.alias) if e not in stored[source.alias]) if watched else None,
        )  # fmt: skip
        scans[source.alias] = Scan(spec, evictions)
    members = {
        group: {a: stored[a].index(e) for a in query.aliases if (e := member_of(cls, a)) is not None and e in stored[a]}
        for group, cls in enumerate(predicates.classes)
    }
    return Sources(scans, evictions, members)


def build_tree(plan: Plan, sources: Sources) -> JoinTree:
    """Make the joins of a plan over existing sources, with empty states."""
    builder = _TreeBuilder(plan, sources)
    return JoinTree(builder.steps(), builder.layout.aliases)


def member_of(cls: EqualityClass, alias: str) -> Entry | None:
    """Return what an alias has in an equality class, if it has something."""
    member = cls.member_of(frozenset([alias]))
    return None if member is None else (member, cls.type)


def _stored(plan: Plan, alias: str) -> tuple[Entry, ...]:
    """Return the codes of an alias that some plan of the query looks up by row number.

    With one equality class over all aliases and nothing else to compare, results carry their key in every plan.
    """
    query, predicates = plan.query, plan.predicates
    one_key = len(predicates.classes) == 1 and not predicates.comparisons
    everywhere = one_key and all(member_of(predicates.classes[0], a) for a in query.aliases)
    if len(query.aliases) < 2 or everywhere:
        return ()
    return _compared(plan, alias)


def _compared(plan: Plan, alias: str) -> tuple[Entry, ...]:
    """Return what of an alias is compared with others: its members of equality classes, its sides of comparisons."""
    predicates = plan.predicates
    members = [member_of(c, alias) for c in predicates.classes]
    sides = [(side, c.type) for c in predicates.comparisons for side in (c.left, c.right)]
    return tuple(dict.fromkeys(e for e in (*members, *sides) if e is not None and aliases(e[0]) == {alias}))


class _TreeBuilder:
    """The tables that one build shares between nodes."""

    def __init__(self, plan: Plan, sources: Sources) -> None:
        self.plan = plan
        self.sources = sources
        # Plans that differ in the sides of a join alone have the same states, laid out the same way.
        self.layout = lay_out(plan.root, plan.predicates, plan.method, plan.query.aliases)
        self.joins = joins(self.layout)

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        for node in self.joins:
            spec = JoinSpec(
                node.aliases,
                node.method == "hash",
                node.method == "nested-loop" and bool(node.keys),
                tuple(k.group for k in node.keys),
                tuple(self._ops(node)),
                node.residuals,
            )
            left, right = self._input(node, "left"), self._input(node, "right")
            checks = tuple(
                check_of(e, node.aliases, self.sources.scans) for e in (*_verifications(node), *node.residuals)
            )
            join = Join(spec, self._state(left), self._state(right), self.sources, checks, self._parent_values(node))
            steps.append(Step(join, (left, right)))
        return steps

    def _state(self, source: Input) -> JoinInputState:
        components = source.layout.components
        scans = self.sources.scans
        lines = tuple(scans[a].spec.line for a in components)
        in_order = source.leaf is not None and scans[components[0]].in_order
        return JoinInputState(components, source.values, in_order, lines)

    def _input(self, node: nodes.Join, side: str) -> Input:
        child = node.left if side == "left" else node.right
        keys, values = tuple(_keys(node, side)), tuple(_values(node, side))
        leaf = Leaf(child.aliases[0], keys, values) if isinstance(child, nodes.Scan) else None
        carried = isinstance(child, nodes.Join) and _carries_key(node, child)
        return Input(
            frozenset(child.aliases),
            leaf,
            self._feed(child, keys, values, carried),
            self._feed(child, keys, values, False),
            len(values),
        )

    def _feed(self, child: Node, keys: tuple[Entry, ...], values: tuple[Entry, ...], carried: bool) -> Feed:
        key = self._code(child, keys[0]) if len(keys) == 1 and not carried else None
        found = [self._code(child, v) for v in values]
        combined = len(keys) if len(keys) > 1 else 0
        return Feed(child.aliases, key, combined, tuple(c for c in found if c is not None))

    def _code(self, child: Node, entry: Entry) -> StoredCode | None:
        """Return where a code is kept, or None when every entry carries it."""
        alias = min(aliases(entry[0]))
        scan = self.sources.scans[alias]
        if entry not in scan.spec.stored:
            return None
        return StoredCode(child.aliases.index(alias), scan, scan.spec.stored.index(entry))

    def _ops(self, node: nodes.Join) -> list[int]:
        """Return the comparisons of a join; the parts of a combined key are compared one by one."""
        return [EQ] * (len(node.keys) if len(node.keys) > 1 else 0) + [OPS[c.op] for c in node.comparisons]

    def _parent_values(self, node: nodes.Join) -> int:
        for parent in self.joins:
            for side, child in (("left", parent.left), ("right", parent.right)):
                if child is node:
                    return len(_values(parent, side))
        return 0


def _keys(node: nodes.Join, side: str) -> list[Entry]:
    return [(k.left if side == "left" else k.right, k.type) for k in node.keys]


def _values(node: nodes.Join, side: str) -> list[Entry]:
    """Return what a join compares value by value: the parts of a combined key, then its comparisons."""
    compared = [(c.left if side == "left" else c.right, c.type) for c in node.comparisons]
    return (_keys(node, side) if len(node.keys) > 1 else []) + compared


def _carries_key(node: nodes.Join, child: nodes.Join) -> bool:
    """Tell whether the results of a join already have the key of the join above: the same equality class."""
    return len(node.keys) == 1 and [k.group for k in node.keys] == [k.group for k in child.keys]


def _verifications(node: nodes.Join) -> list[Expr]:
    """Return the equalities whose codes are hashes, to be checked on the values themselves."""
    unsure = [k for k in node.keys if not is_exact_code(k.type)]
    return [Call("=", (cast_to(k.left, k.type), cast_to(k.right, k.type)), pa.bool_()) for k in unsure]
