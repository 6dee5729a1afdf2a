"""A plan: a query, the tree that is executed, and how each of its operators works. A value, checked."""

from dataclasses import dataclass, field
from functools import cached_property

from midstream.model.errors import PlanError
from midstream.plan import algebra
from midstream.plan.algebra import Path, Rel, relation_text, scans, walk
from midstream.plan.modes import WINDOW, check_modes
from midstream.plan.nodes import Difference, MethodChoice, Node, Scan, lay_out
from midstream.plan.order import order_of, reordered
from midstream.plan.partition import Partitioning, over_sites, partition
from midstream.plan.predicates import Predicates, classify
from midstream.plan.query import HOP, Query
from midstream.plan.tree import Tree, check_leaves, tree_text


@dataclass(frozen=True)
class Plan:
    """How a query is computed.

    `root` means what the query's tree means: with the joins, or the differences, in another order, or rewritten by the
    rules of the optimizer. `modes` and `working` are for hopping queries, in the order of `operators(root)`: inputs
    before those that read them; `working` matters to operators that read deltas. `method` is how joins are done row by
    row. Invariant: what an operator gives is what the one above it reads; the root gives what the query emits.
    """

    query: Query
    root: Rel
    modes: tuple[str, ...] = ()
    working: tuple[str, ...] = ()
    method: MethodChoice = "auto"
    sites: tuple[str, ...] = field(default=(), metadata={"later": True})
    """Where streams are joined where they arrive: the site of each alias in FROM order, and that of the results."""

    def __post_init__(self) -> None:
        if [c.type for c in self.root.columns] != [c.type for c in self.query.root.columns]:
            raise PlanError("the plan has other columns than the query")
        asked = {(s.stream.name, str(s.window)) for s in self.query.sources}
        for source in (scan.source for scan in scans(self.root)):
            if (source.stream.name, str(source.window)) not in asked:
                raise PlanError(f"the query does not read what '{source.alias}' does")
        if self.query.when == HOP:
            object.__setattr__(self, "working", self.working or (WINDOW,) * len(self.modes))
            check_modes(self.root, self.modes, self.working, self.query.emit)
        else:
            check_leaves(self.tree, self.query.aliases)
            assert self.layout is not None

    @cached_property
    def partitioning(self) -> Partitioning:
        """Return how the work is split over buckets: the same for all plans of a query."""
        return over_sites(self.query, self.sites) if self.sites else partition(self.query)

    def of_paths(self) -> list[tuple[Path, str]]:
        """Return the mode of each operator by its path from the root."""
        paths = [path for path, rel in walk(self.root) if not isinstance(rel, algebra.Scan)]
        return list(zip(paths, self.modes, strict=True))

    @cached_property
    def tree(self) -> Tree:
        """Return the order in which streams are joined, or taken away."""
        return order_of(self.root)

    @cached_property
    def predicates(self) -> Predicates:
        """Return the conditions of a query that answers row by row, by what they are good for."""
        return classify(self.query)

    @cached_property
    def layout(self) -> Node:
        """Return the joins, or differences, of a plan that answers row by row, with every condition on one of them."""
        return lay_out(self.root, self.predicates, self.method)

    @cached_property
    def _text(self) -> str:
        return relation_text(self.root, dict(self.of_paths())) if self.modes else tree_text(self.tree)

    def __str__(self) -> str:
        return self._text

    def explain(self) -> str:
        """Return the plan as people read it: output, tree, windows, stages from the inside out, partitioning."""
        query = self.query
        output = [f"{name}: {text}" for name, text in query.parts.top.shown]
        output += ["_sign: +1 when a row comes into the difference, -1 when it goes"] if query.signed else []
        tree = _draw(self.layout)
        tree += ["only if " + " AND ".join(map(str, self.predicates.constants))] if self.predicates.constants else []
        stages = [str(stage) for stage in query.parts.stages]
        windows = [
            f"{s.alias}: {s.stream.name} {s.window or '(no window: every row stands alone)'}"
            for s in query.sources
            if s.window or not stages
        ]
        sections = {"Output": output, f"Plan {self}": tree, "Windows": windows, "Stages": stages}
        sections["Partitioning"] = [str(self.partitioning)]
        return "\n".join("\n  ".join([title, *lines]) for title, lines in sections.items() if lines)


def ordered_plan(query: Query, tree: Tree, method: MethodChoice = "auto") -> Plan:
    """Return the plan that joins the streams of a query, or takes them away, in an order."""
    check_leaves(tree, query.aliases)
    return Plan(query, reordered(query.root, tree, method), method=method)


def _draw(node: Node, indent: str = "") -> list[str]:
    """Draw a subtree, one node a line, children below their parent."""
    if isinstance(node, Scan):
        where = " where " + " AND ".join(map(str, node.filters)) if node.filters else ""
        return [f"scan {node.source}{where}"]
    if isinstance(node, Difference):
        lines = [f"difference with ({', '.join(map(str, node.values))})"]
    else:
        lines = [f"{node.method} join on {node.condition}"]
    for child, branch, stem in ((node.left, "├─ ", "│  "), (node.right, "└─ ", "   ")):
        first, *rest = _draw(child)
        lines += [branch + first, *(stem + line for line in rest)]
    return [indent + line for line in lines]
