"""Build: from a plan of a hopping query to its nodes. Every node carries only the columns that those above it need."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from midstream.kernels.values import BAG, SET
from midstream.model.errors import PlanError
from midstream.operators.aggregate.build import aggregate_spec
from midstream.operators.hopping.anti import AntiTuples
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.difference import CountValues
from midstream.operators.hopping.group import GroupSpec, GroupTuples
from midstream.operators.hopping.join import JoinSpec, JoinTuples, UnionTuples
from midstream.operators.hopping.kept_groups import KeptGroups
from midstream.operators.hopping.node import Core, Input, Leaf, Node, Shaped
from midstream.operators.hopping.rows import Condition, Layout, ProjectRows, SelectRows
from midstream.operators.hopping.window import HopWindow
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
    Windowed,
    inputs,
    scans,
)
from midstream.plan.expr import Call, Column, Expr, columns
from midstream.plan.modes import TUPLE
from midstream.plan.plan import Plan
from midstream.plan.window import RangeWindow, RowsWindow

MOST_ROWS = 2**62
"""A window of more rows holds all there ever are."""


@dataclass
class Tree:
    """The nodes of a plan: the root, every operator by its path, and the windows by alias."""

    nodes: dict[tuple[int, ...], Node] = field(default_factory=dict)
    leaves: dict[str, Leaf] = field(default_factory=dict)
    rels: dict[tuple[int, ...], Rel] = field(default_factory=dict)

    @property
    def root(self) -> Node:
        """Return the operator whose output is the answer."""
        return self.nodes[()]


@dataclass(frozen=True)
class Fields:
    """What a scan hands to its window: the columns it gives, and those its rows are counted by."""

    given: tuple[Column, ...]
    counted: tuple[Column, ...] = ()


def origins(plan: Plan) -> dict[str, Scan]:
    """Return for every alias of a plan the query's scan of the same rows: a rule may have made two of one, or not.

    The query's own aliases are among them whatever the plan, so that any other plan can take over.
    """
    asked = {s.source.alias: s for s in scans(plan.query.root)}
    found = dict(asked)
    for scan in scans(plan.root):
        alias, rows, read = scan.source.alias, _rows_of(scan), {c.name for c in scan.columns}
        # Two scans of the same rows need not read the same columns.
        same = [a for a, s in asked.items() if _rows_of(s) == rows and read <= {c.name for c in s.columns}]
        if not same:
            raise PlanError(f"the query does not read what '{alias}' does")
        found[alias] = asked[alias if alias in same else same[0]]
    return found


def _rows_of(scan: Scan) -> tuple[str, str]:
    return scan.source.stream.name, str(scan.source.window)


def window_columns(plan: Plan) -> dict[str, Fields]:
    """Return for each alias what its window holds: every column the query reads, whatever the plan."""
    found = {}
    for alias, scan in origins(plan).items():
        window = scan.source.window
        counted = window.partition_by if isinstance(window, RowsWindow) else ()
        found[alias] = Fields(*(tuple(Column(alias, c.name, c.type) for c in of) for of in (scan.columns, counted)))
    return found


def open_windows(plan: Plan) -> dict[str, HopWindow]:
    """Return an empty window for each alias."""
    out = {}
    for alias, fields in window_columns(plan).items():
        window = origins(plan)[alias].source.window
        if isinstance(window, RangeWindow):
            out[alias] = HopWindow(len(fields.given), window.width_us)
        else:
            assert isinstance(window, RowsWindow), "a hopping query has windows of time or rows"
            out[alias] = HopWindow(len(fields.given), None, min(window.count, MOST_ROWS), len(fields.counted))
    return out


def build(plan: Plan, windows: dict[str, HopWindow], coding: Coding) -> Tree:
    """Make the nodes of a plan over windows."""
    working = dict(zip([path for path, _ in plan.of_paths()], plan.working, strict=True))
    builder = _Builder(dict(plan.of_paths()), working, windows, window_columns(plan), coding)
    builder.node(plan.root, plan.root.columns, ())
    return builder.tree


class _Builder:
    def __init__(
        self,
        modes: dict[tuple[int, ...], str],
        working: dict[tuple[int, ...], str],
        windows: dict[str, HopWindow],
        fields: dict[str, Fields],
        coding: Coding,
    ) -> None:
        self._fields = fields
        self._modes, self._working = modes, working
        self._windows, self._coding = windows, coding
        self._computed = 0
        self.tree = Tree()

    def node(self, rel: Rel, needed: Sequence[Column], path: tuple[int, ...]) -> Node:
        """Make the node of an operator, and those below it; it gives the needed columns, maybe among others."""
        mode, by_tuple = self._modes[path], self._working[path] == TUPLE
        if not path and mode == "CIDO":
            mode = "CICO"  # the emission compares answers anyway
        core, below, layout = self._made(rel, tuple(needed), path, by_tuple)
        made = self.tree.nodes[path] = Node(core, mode, by_tuple, below, layout)
        self.tree.rels[path] = rel
        return made

    def _made(
        self, rel: Rel, needed: tuple[Column, ...], path: tuple[int, ...], by_tuple: bool
    ) -> tuple[Core, list[Input], Layout]:
        match rel:
            case Select(child=child, conjuncts=conjuncts):
                below, layout = self._input(child, [*needed, *_read(conjuncts)], path, 0)
                return SelectRows(Condition(conjuncts, layout, self._coding)), [below], layout
            case Project(child=child, outputs=outputs):
                kept = [(c, e) for c, e in outputs if c in needed]
                below, layout = self._input(child, _read(e for _, e in kept), path, 0)
                project = ProjectRows([e for _, e in kept], layout, self._coding)
                return project, [below], Layout(tuple(c for c, _ in kept))
            case Join():
                return self._join(rel, needed, path)
            case Anti():
                return self._anti(rel, needed, path, by_tuple)
            case Except(left=left, all=bag):
                sides = [self._exact(child, path, i) for i, child in enumerate(inputs(rel))]
                core = CountValues(len(left.columns), BAG if bag else SET, by_tuple, (_fold(left), _fold(rel.right)))
                return core, sides, Layout(rel.columns)
            case Union():
                sides = [self._exact(child, path, i) for i, child in enumerate(inputs(rel))]
                return UnionTuples(), sides, Layout(rel.columns)
            case Distinct(child=child):
                return (
                    CountValues(len(child.columns), SET, by_tuple, (_fold(child), False)),
                    [self._exact(child, path, 0)],
                    Layout(rel.columns),
                )
            case Group():
                return self._group(rel, path)
            case Scan() | Windowed():
                raise AssertionError("no operator of a hopping query")

    def _input(self, child: Rel, needed: Iterable[Column], path: tuple[int, ...], place: int) -> tuple[Input, Layout]:
        """Make what an operator reads, with at least the needed columns."""
        wanted = tuple(dict.fromkeys(needed))
        if not isinstance(child, Scan):
            made = self.node(child, [c for c in child.columns if c in wanted], (*path, place))
            return made, made.layout
        alias = child.source.alias
        held = self._fields[alias].given
        leaf = self.tree.leaves[alias] = Leaf(self._windows[alias], Layout(held), self._modes[path][0] == "D")
        if all(c in wanted for c in held):
            return leaf, leaf.layout
        chosen = tuple(c for c in held if c in wanted)
        return self._shaped(leaf, leaf.layout, chosen, chosen)

    def _shaped(
        self, below: Input, layout: Layout, exprs: Sequence[Expr], names: tuple[Column, ...]
    ) -> tuple[Input, Layout]:
        """Make an input with chosen or computed columns."""
        return Shaped(below, ProjectRows(exprs, layout, self._coding), len(names)), Layout(names)

    def _exact(self, child: Rel, path: tuple[int, ...], place: int) -> Input:
        """Make what an operator reads by position: all columns, in their order, and no other."""
        below, layout = self._input(child, child.columns, path, place)
        return (
            below if layout.columns == child.columns else self._shaped(below, layout, child.columns, child.columns)[0]
        )

    def _sides(
        self, rel: Join | Anti, needed: tuple[Column, ...], leaving: tuple[Column, ...], path: tuple[int, ...]
    ) -> tuple[list[Input], Layout, JoinSpec, Layout]:
        """Make both inputs, with a column for every key; return them, the layout of the left one, how they are joined.

        And the layout of pairs: the columns that are leaving, and those that conditions read.
        """
        pairs, rest = split_keys(rel)
        below: list[Input] = []
        layouts: list[Layout] = []
        keys: list[list[Column]] = []
        for place, child in enumerate((rel.left, rel.right)):
            own = [c for c in (*needed, *_read(rest), *_read(p[place] for p in pairs)) if c in child.columns]
            made, layout = self._input(child, own, path, place)
            named, extra = [], []
            for pair in pairs:
                key = pair[place]
                if not isinstance(key, Column):
                    self._computed += 1
                    extra.append((Column("#key", str(self._computed), key.type), key))
                named.append(key if isinstance(key, Column) else extra[-1][0])
            if extra:
                exprs = [*layout.columns, *(e for _, e in extra)]
                made, layout = self._shaped(made, layout, exprs, (*layout.columns, *(c for c, _ in extra)))
            below.append(made)
            layouts.append(layout)
            keys.append(named)
        carried = [[c for c in layout.columns if c in leaving or c in set(_read(rest))] for layout in layouts]
        both = Layout((*carried[0], *carried[1]))
        spec = JoinSpec(
            (len(layouts[0]), len(layouts[1])),
            (layouts[0].places(keys[0]), layouts[1].places(keys[1])),
            (layouts[0].places(carried[0]), layouts[1].places(carried[1])),
            Condition(rest, both, self._coding),
        )
        return below, layouts[0], spec, both

    def _join(self, rel: Join, needed: tuple[Column, ...], path: tuple[int, ...]) -> tuple[Core, list[Input], Layout]:
        below, _, spec, both = self._sides(rel, needed, needed, path)
        given = tuple(c for c in both.columns if c in needed)
        gives = None if given == both.columns else both.places(given)
        return JoinTuples(replace(spec, gives=gives)), below, Layout(given)

    def _anti(
        self, rel: Anti, needed: tuple[Column, ...], path: tuple[int, ...], by_tuple: bool
    ) -> tuple[Core, list[Input], Layout]:
        left_needed = tuple(c for c in needed if c in rel.left.columns)
        below, left, spec, _ = self._sides(rel, left_needed, (), path)
        return AntiTuples(spec, by_tuple), below, left

    def _group(self, rel: Group, path: tuple[int, ...]) -> tuple[Core, list[Input], Layout]:
        arguments = list(dict.fromkeys(a.argument for a in rel.aggregates if a.argument is not None))
        exprs = [*rel.keys, *arguments]
        below, layout = self._input(rel.child, _read(exprs), path, 0)
        spec = GroupSpec(
            ProjectRows(exprs, layout, self._coding),
            len(rel.keys),
            tuple(aggregate_spec(a, None if a.argument is None else "") for a in rel.aggregates),
            tuple(-1 if a.argument is None else len(rel.keys) + arguments.index(a.argument) for a in rel.aggregates),
            tuple(e.type for e in exprs),
        )
        exact = [a.exact for a in rel.aggregates]
        # Of a join there may be more tuples than can be held.
        if all(exact) or (_pairs(rel.child) and all(e or a.once for e, a in zip(exact, spec.aggregates, strict=True))):
            return KeptGroups(spec, self._coding, _lasts(rel.child)), [below], Layout(rel.columns)
        return GroupTuples(spec, self._coding, _lasts(rel.child)), [below], Layout(rel.columns)


def _lasts(rel: Rel) -> bool:
    """Tell whether nothing that a relation gives is taken back before its time."""
    if isinstance(rel, Scan):
        return isinstance(rel.source.window, RangeWindow)
    return isinstance(rel, Select | Project | Join | Union) and all(_lasts(child) for child in inputs(rel))


def _pairs(rel: Rel) -> bool:
    """Tell whether tuples of a relation come in pieces from a join: more of them, maybe, than can be held."""
    if isinstance(rel, Select | Project | Union):
        return any(_pairs(child) for child in inputs(rel))
    return isinstance(rel, Join) or (isinstance(rel, Except) and rel.all and _pairs(rel.left))


def _fold(rel: Rel) -> bool:
    """Tell whether of equal tuples, many as they may be, the last one to end can stand for all."""
    return _pairs(rel) and _lasts(rel)


def split_keys(rel: Join | Anti) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
    """Return the equalities of a join that its sides can be hashed by, left and right, and the other conditions."""
    left, right = set(rel.left.columns), set(rel.right.columns)
    pairs: list[tuple[Expr, Expr]] = []
    rest: list[Expr] = []
    for conjunct in rel.conjuncts:
        if isinstance(conjunct, Call) and conjunct.function == "=" and conjunct.args[0].type == conjunct.args[1].type:
            a, b = conjunct.args
            reads = [set(columns(a)), set(columns(b))]
            if reads[0] and reads[1] and reads[0] <= left and reads[1] <= right:
                pairs.append((a, b))
                continue
            if reads[0] and reads[1] and reads[0] <= right and reads[1] <= left:
                pairs.append((b, a))
                continue
        rest.append(conjunct)
    return pairs, rest


def _read(exprs: Iterable[Expr]) -> list[Column]:
    return [c for e in exprs for c in columns(e)]
