"""Node operator sets: what each node does for its share of a plan, and how they follow from the plan (section 4.1).

    ship(S_1, N_2)         when rows of the flow S_1 arrive here, send them to node N_2
    join(S^1_2, S_3)       when rows of the flow S^1_2 arrive here, probe the window of S_3 that is kept here
    update(S_3)            when rows of S_3 arrive here, put them into the window of S_3 that is kept here

Where the printed text of the paper is not of one piece, this is what holds here:

- Operators stand joins first, then updates, then ships. So it is in Example 3 and in NOS^1_2, NOS^1_3 and NOS^3_3 of
  Example 2; NOS^2_2 is printed with its update first. A set has no order, so nothing depends on it.
- Example 2 takes NOS_1 as the union of NOS^1_1, NOS^2_1 and NOS^3_1 and NOS_2 as that of NOS^2_1, NOS^2_2, NOS^3_2: the
  upper number is the head, the lower the node, and the second reads NOS^1_2. NOS^2_3, too, has an update(S_3), which
  the union has once.
- A flow is shipped on from the node at which it is produced. The rule for the succeeding stream (Fig. 2c, d) is for a
  node N_k at which S^i_k is produced: that of the head, and those with p_k = 1. With p_k = 0, S^i_k is produced at the
  node that S_k is shipped to, and the run of source placements there goes on with it, as Example 2 has it (NOS^2_1 is
  {ship(S_1, N_2)} alone).
- The rule ships the last flow to N_0 "if p_s = 1", where S_k is last and has no S_s. It is shipped by the node at which
  it is produced, also by one that ends a run of source placements (NOS^3_3).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from midstream.model.errors import PlanError
from midstream.sites.plan import AT_DESTINATION, QUERY_NODE, Flow, ProbeSequence, SitesPlan

__all__ = ["Flow", "Join", "Operator", "OperatorSet", "Ship", "Update", "operator_sets", "operators_at"]


@dataclass(frozen=True)
class Join:
    """Probe the window of a stream with the rows of a flow.

    >>> str(Join(Flow("1", "2"), "3"))
    'join(S^1_2, S_3)'
    """

    flow: Flow
    stream: str

    def __str__(self) -> str:
        return f"join({self.flow}, S_{self.stream})"


@dataclass(frozen=True)
class Update:
    """Keep the window of a stream.

    >>> str(Update("3"))
    'update(S_3)'
    """

    stream: str

    @property
    def flow(self) -> Flow:
        """Return the flow on whose arrival it is executed."""
        return Flow(self.stream, self.stream)

    def __str__(self) -> str:
        return f"update(S_{self.stream})"


@dataclass(frozen=True)
class Ship:
    """Send the rows of a flow to a node.

    >>> str(Ship(Flow("1", "3"), "0"))
    'ship(S^1_3, N_0)'
    """

    flow: Flow
    to: str

    def __str__(self) -> str:
        return f"ship({self.flow}, N_{self.to})"


Operator = Join | Update | Ship
_RANK = {Join: 0, Update: 1, Ship: 2}


@dataclass(frozen=True)
class OperatorSet:
    """What one node does (NOS_k): its operators, by the head stream of the sequence they are for (NOS^i_k)."""

    node: str
    by_head: Mapping[str, tuple[Operator, ...]]

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Return the union: each operator once, in the order of heads."""
        return tuple(dict.fromkeys(o for operators in self.by_head.values() for o in operators))

    def on(self, flow: Flow) -> tuple[Operator, ...]:
        """Return what is to be done when rows of a flow arrive: the operators whose first argument it is."""
        return tuple(o for o in self.operators if o.flow == flow)

    @property
    def windows(self) -> tuple[str, ...]:
        """Return the streams whose windows are kept here."""
        return tuple(o.stream for o in self.operators if isinstance(o, Update))

    def __str__(self) -> str:
        return f"NOS_{self.node} = {_braced(self.operators)}"

    def text_of(self, head: str) -> str:
        """Return the part that is for one sequence, as text."""
        return f"NOS^{head}_{self.node} = {_braced(self.by_head.get(head, ()))}"

    def to_json(self) -> dict[str, Any]:
        """Return the set as JSON holds it."""
        return {
            "node": self.node,
            "by_head": {h: [_written(o) for o in operators] for h, operators in self.by_head.items()},
        }


def read_operator_set(written: Mapping[str, Any]) -> OperatorSet:
    """Read an operator set that `to_json` has written."""
    try:
        by_head = {h: tuple(_read(o) for o in operators) for h, operators in written["by_head"].items()}
        return OperatorSet(written["node"], by_head)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise PlanError(f"this is no operator set: {error!r}") from error


def _braced(operators: Iterable[Operator]) -> str:
    return "{" + ", ".join(map(str, operators)) + "}"


def _written(operator: Operator) -> list[str]:
    match operator:
        case Join(flow, stream):
            return ["join", flow.head, flow.last, stream]
        case Update(stream):
            return ["update", stream]
        case Ship(flow, to):
            return ["ship", flow.head, flow.last, to]


def _read(written: list[str]) -> Operator:
    match written:
        case ["join", head, last, stream]:
            return Join(Flow(head, last), stream)
        case ["update", stream]:
            return Update(stream)
        case ["ship", head, last, to]:
            return Ship(Flow(head, last), to)
    raise ValueError(written)


def operator_sets(plan: SitesPlan) -> dict[str, OperatorSet]:
    """Return the operator set of every node, by the alias of its stream."""
    return {node: OperatorSet(node, {s.head: _of_sequence(s, node) for s in plan.sequences}) for node in plan.aliases}


def _of_sequence(sequence: ProbeSequence, node: str) -> tuple[Operator, ...]:
    """Return what a node does for one sequence."""
    if node == sequence.head:
        return operators_at(node, Flow(node, node), zip(sequence.order, sequence.placements, strict=True))
    steps = list(sequence.steps())
    k = sequence.order.index(node)
    succeeding = zip(sequence.order[k + 1 :], sequence.placements[k + 1 :], strict=True)
    return operators_at(node, steps[k].flow, succeeding, (steps[k].placement, steps[k].source))


def operators_at(
    node: str, flow: Flow, succeeding: Iterable[tuple[str, int]], joined: tuple[int, str] | None = None
) -> tuple[Operator, ...]:
    """Return what the node of a stream does for a sequence, of what it must know of that sequence.

    That is `flow`, which is to be joined with its stream (the head: the stream itself); `succeeding`, the streams that
    follow with their placements; and `joined`: where the join with its own stream is placed, and where the flow comes
    from. `succeeding` is read as far as the joins take place here.
    """
    operators: list[Operator] = []
    if joined is not None:
        placement, source = joined
        if placement != AT_DESTINATION:
            return (Ship(Flow(node, node), source),)  # Fig. 2a
        operators += [Join(flow, node), Update(node)]  # Fig. 2b
        flow = Flow(flow.head, node)
    operators += _from_here(flow, iter(succeeding))
    return tuple(sorted(operators, key=lambda o: _RANK[type(o)]))


def _from_here(flow: Flow, succeeding: Iterator[tuple[str, int]]) -> Iterator[Operator]:
    """Yield what is done with a flow that is produced here: the run of source placements, then the shipping."""
    for stream, placement in succeeding:
        if placement == AT_DESTINATION:
            yield Ship(flow, stream)  # Fig. 2d
            return
        yield from (Join(flow, stream), Update(stream))  # Fig. 2c, and further as long as the placement is the source
        flow = Flow(flow.head, stream)
    yield Ship(flow, QUERY_NODE)
