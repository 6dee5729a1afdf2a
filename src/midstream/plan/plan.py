"""A plan: a query, the order of joins or differences that answers it and how each join is done. A value, checked."""

from dataclasses import dataclass, field

from midstream.plan.nodes import Difference, Join, MethodChoice, Node, Scan, lay_out
from midstream.plan.partition import Partitioning, partition
from midstream.plan.predicates import Predicates, classify
from midstream.plan.query import Query
from midstream.plan.staged import over_rows, stage_text
from midstream.plan.tree import Tree, check_leaves, tree_text


@dataclass(frozen=True)
class Plan:
    """How a query is computed.

    Invariant: the tree's leaves are the query's aliases, each once; every predicate hangs on exactly one node.
    """

    query: Query
    tree: Tree
    method: MethodChoice = "auto"
    predicates: Predicates = field(init=False, compare=False, repr=False)
    root: Node = field(init=False, compare=False, repr=False)
    partitioning: Partitioning = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_leaves(self.tree, self.query.aliases)
        predicates = classify(self.query)
        object.__setattr__(self, "predicates", predicates)
        object.__setattr__(self, "root", lay_out(self.query, predicates, self.tree, self.method))
        object.__setattr__(self, "partitioning", partition(self.query))

    def __str__(self) -> str:
        return tree_text(self.tree)

    def explain(self) -> str:
        """Return the plan as people read it: output, tree, windows, stages from the inside out, partitioning."""
        lines = ["Output", *(f"  {name}: {text}" for name, text in _outputs(self.query))]
        if self.query.subtracted:
            lines.append("  _sign: +1 when a row comes into the difference, -1 when it goes")
        lines.append(f"Plan {self}")
        lines += [f"  {line}" for line in _draw(self.root)]
        if self.predicates.constants:
            lines.append("  only if " + " AND ".join(map(str, self.predicates.constants)))
        windowed = [s for s in self.query.sources if s.window or not self.query.stages]
        lines += ["Windows"] if windowed else []
        lines += [f"  {s.alias}: {s.stream.name} {s.window or '(no window: every row stands alone)'}" for s in windowed]
        if self.query.stages:
            lines.append("Stages")
            lines += [f"  {stage_text(stage)}" for stage in self.query.stages]
        lines += ["Partitioning", f"  {self.partitioning}"]
        return "\n".join(lines)


def _outputs(query: Query) -> list[tuple[str, str]]:
    if not query.stages:
        return [(o.name, str(o.expr)) for o in query.outputs]
    last = query.stages[-1]
    return [(o.name, str(over_rows(last, o.expr))) for o in last.outputs]


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


def steps(node: Node) -> list[Join | Difference]:
    """Return the joins and differences of a subtree, inputs before those that read them."""
    return [] if isinstance(node, Scan) else [*steps(node.left), *steps(node.right), node]


def joins(node: Node) -> list[Join]:
    """Return the joins of a subtree, inputs before the joins that read them."""
    return [step for step in steps(node) if isinstance(step, Join)]
