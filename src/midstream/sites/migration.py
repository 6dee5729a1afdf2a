"""What a modified plan leaves to do for a node: go from one operator set to another, and have windows copied."""

from dataclasses import dataclass

from midstream.sites.messages import register
from midstream.sites.operator_set import Operator, OperatorSet, Ship, Update
from midstream.sites.plan import Flow


@dataclass(frozen=True)
class WindowMove:
    """A window that a node needs and has not: which node has it."""

    stream: str
    source: str
    target: str


@register
@dataclass(frozen=True)
class Migration:
    """The part of one node in going over to a new plan."""

    modification: int
    coordinator: str
    """Who waits until the node has migrated."""
    before: OperatorSet
    after: OperatorSet
    affected: tuple[str, ...]
    """All nodes that migrate together, this one included, in declaration order."""

    @property
    def moves(self) -> tuple[WindowMove, ...]:
        """Return which windows of the node's own stream must be copied: it is the one who knows where they are."""
        return window_moves(self.before, self.after)


def window_holders(operators: OperatorSet) -> tuple[str, ...]:
    """Return the nodes that keep the window of a node's stream, as its own operators say.

    It is kept there itself if it is updated there, and wherever the stream is shipped to for the sequence of another.
    """
    stream = Flow(operators.node, operators.node)

    def holder(head: str, operator: Operator) -> str | None:
        if operator == Update(operators.node):
            return operators.node
        shipped = head != operators.node and isinstance(operator, Ship) and operator.flow == stream
        return operator.to if shipped and isinstance(operator, Ship) else None

    found = [holder(head, o) for head, mine in operators.by_head.items() for o in mine]
    return tuple(dict.fromkeys(node for node in found if node is not None))


def window_moves(before: OperatorSet, after: OperatorSet) -> tuple[WindowMove, ...]:
    """Return which windows of a node's stream are needed at new nodes: from itself, or the first node that has it."""
    had = window_holders(before)
    source = before.node if before.node in had else had[0]
    return tuple(WindowMove(before.node, source, target) for target in window_holders(after) if target not in had)
