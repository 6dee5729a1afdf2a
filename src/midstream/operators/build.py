"""Build: from a plan to the operators that run it. The only operator module that reads plans."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.codes import equal_bytes
from midstream.kernels.entries import ROWS
from midstream.kernels.join import EQ, GE, GT, LE, LT, NE
from midstream.model.types import is_exact_code
from midstream.operators.evaluate import truth
from midstream.operators.feed import Feed, StoredCode
from midstream.operators.join import Join, JoinSpec, Residual
from midstream.operators.join_state import JoinInputState
from midstream.operators.pipeline import Pipeline, Step, lookup
from midstream.operators.scan import Entry, Scan, ScanSpec
from midstream.operators.window import EvictionTable
from midstream.plan import nodes
from midstream.plan.expr import Call, Column, Expr, aliases, cast_to, columns
from midstream.plan.nodes import Node
from midstream.plan.plan import Plan, joins
from midstream.plan.window import RowsWindow

OPS = {"=": EQ, "<>": NE, "<": LT, "<=": LE, ">": GT, ">=": GE}
Matrix = npt.NDArray[np.int64]


def build(plan: Plan, one_of_many: bool = False) -> Pipeline:
    """Make the operators of a plan, with empty states; `one_of_many` when other buckets' results are merged in."""
    return _Builder(plan, one_of_many).build()


class _Builder:
    """The tables that one build shares between nodes."""

    def __init__(self, plan: Plan, one_of_many: bool) -> None:
        self.plan = plan
        self.one_of_many = one_of_many
        self.joins = joins(plan.root)
        counted = [s.alias for s in plan.query.sources if isinstance(s.window, RowsWindow) and self.joins]
        self.lines = {alias: k for k, alias in enumerate(counted)}
        self.evictions = EvictionTable(len(counted))
        self.stored = {alias: self._stored(alias) for alias in plan.query.aliases}
        self.scans = {alias: Scan(self._scan_spec(alias), self.evictions) for alias in plan.query.aliases}

    def build(self) -> Pipeline:
        steps: list[Step] = []
        for node in self.joins:
            states = [self._state(node, side) for side in ("left", "right")]
            spec = JoinSpec(
                node.aliases,
                node.method == "hash",
                node.method == "nested-loop" and bool(node.keys),
                tuple(self._ops(node)),
                node.residuals,
                self._parent_values(node),
            )
            join = Join(spec, states[0], states[1], self.evictions, tuple(self._checks(node)))
            steps.append(Step(join, self._source(node, "left"), self._source(node, "right")))
        query = self.plan.query
        no_column: Callable[[Column], pa.Array] = lambda column: pa.nulls(1)  # noqa: E731
        never = not all(truth(c, 1, no_column).all() for c in self.plan.predicates.constants)
        outputs = [(o.name, o.expr) for o in query.outputs]
        return Pipeline(self.scans, steps, self.evictions, self.plan.root.aliases, outputs, never)

    def _state(self, node: nodes.Join, side: str) -> JoinInputState:
        child = node.left if side == "left" else node.right
        scan = self.scans[child.aliases[0]] if isinstance(child, nodes.Scan) else None
        lines = tuple(self.lines.get(a, -1) for a in child.aliases)
        in_order = scan is not None and scan.in_order
        return JoinInputState(child.aliases, len(_values(node, side)), in_order, lines)

    def _source(self, node: nodes.Join, side: str) -> "str | tuple[int, Feed]":
        child = node.left if side == "left" else node.right
        if isinstance(child, nodes.Scan):
            return child.aliases[0]
        keys = _keys(node, side)
        key = self._code(child, keys[0]) if len(keys) == 1 and not _carries_key(node, child) else None
        values = tuple(self._code(child, v) for v in _values(node, side))
        place = next(k for k, j in enumerate(self.joins) if j is child)
        return place, Feed(len(child.aliases), key, len(keys) if len(keys) > 1 else 0, values)

    def _code(self, child: Node, entry: Entry) -> StoredCode:
        alias = min(aliases(entry[0]))
        return StoredCode(child.aliases.index(alias), self.scans[alias], self.stored[alias].index(entry))

    def _ops(self, node: nodes.Join) -> list[int]:
        """Return the comparisons of a join; the parts of a combined key are compared one by one."""
        return [EQ] * (len(node.keys) if len(node.keys) > 1 else 0) + [OPS[c.op] for c in node.comparisons]

    def _parent_values(self, node: nodes.Join) -> int:
        for parent in self.joins:
            for side, child in (("left", parent.left), ("right", parent.right)):
                if child is node:
                    return len(_values(parent, side))
        return 0

    def _stored(self, alias: str) -> tuple[Entry, ...]:
        """Return the codes of an alias that joins look up by row number."""
        wanted: list[Entry] = []
        for node in self.joins:
            for side, child in (("left", node.left), ("right", node.right)):
                if isinstance(child, nodes.Join):
                    keys = _keys(node, side)
                    single = keys if len(keys) == 1 and not _carries_key(node, child) else []
                    wanted += [e for e in (*single, *_values(node, side)) if aliases(e[0]) == {alias}]
        return tuple(dict.fromkeys(wanted))

    def _scan_spec(self, alias: str) -> ScanSpec:
        source = self.plan.query.source(alias)
        keys: list[Entry] = []
        values: list[Entry] = []
        for node in self.joins:
            for side, child in (("left", node.left), ("right", node.right)):
                if isinstance(child, nodes.Scan) and child.aliases == (alias,):
                    keys, values = _keys(node, side), _values(node, side)
        needed = {c for e in self._late_expressions() for c in columns(e) if c.alias == alias}
        held = {n: source.stream.type_of(n) for n in source.stream.columns.names if any(c.name == n for c in needed)}
        return ScanSpec(
            alias,
            source.position,
            source.window,
            self.plan.predicates.filters[alias],
            held,
            tuple(keys),
            tuple(values),
            self.stored[alias],
            self.lines.get(alias, -1),
            self.one_of_many,
        )

    def _late_expressions(self) -> list[Expr]:
        """Return what is computed from results rather than from arriving rows."""
        checks = [e for node in self.joins for e in (*node.residuals, *_verifications(node))]
        return [*(o.expr for o in self.plan.query.outputs), *checks]

    def _checks(self, node: nodes.Join) -> list[Residual]:
        return [self._check(node, e) for e in (*_verifications(node), *node.residuals)]

    def _check(self, node: nodes.Join, expr: Expr) -> Residual:
        components, scans = node.aliases, self.scans
        if isinstance(expr, Call) and expr.function == "=":
            left, right = expr.args
            if isinstance(left, Column) and isinstance(right, Column) and pa.types.is_string(left.type):
                return self._same_text(node, left, right)
        return lambda batch: truth(expr, len(batch), lookup(components, batch, scans))

    def _same_text(self, node: nodes.Join, left: Column, right: Column) -> Residual:
        """Compare two string columns where they lie; rows with a null never come this far."""
        a, b = self.scans[left.alias].store, self.scans[right.alias].store
        x, y = a.columns[left.name], b.columns[right.name]
        at_x, at_y = (ROWS + node.aliases.index(c.alias) for c in (left, right))

        def same(batch: Matrix) -> npt.NDArray[np.bool_]:
            return equal_bytes(
                x.offsets.view(), x.data.view(), x.data.base, batch[:, at_x] - a.base,
                y.offsets.view(), y.data.view(), y.data.base, batch[:, at_y] - b.base,
            )  # fmt: skip

        return same


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
