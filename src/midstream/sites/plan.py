"""The plan of a join over sites: for every stream, where its new rows go to find partners, and in which order.

    S_1 ──▶ S_2 ──▶ S_3 ──▶ N_0        new rows of S_1 probe the window of S_2, what they match that of S_3

A stream arrives at a node of its own, which bears its alias; results go to the query site, the node N_0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from midstream.model.errors import PlanError

QUERY_NODE = "0"
"""The node of the query site, N_0, which no stream arrives at."""
AT_SOURCE, AT_DESTINATION = 0, 1
"""Where a one-way join takes place: where the rows come from, or where the stream is that they are joined with."""


@dataclass(frozen=True)
class Flow:
    """The rows that leave a one-way join, S^head_last: new rows of `head`, joined with the streams as far as `last`.

    `Flow(a, a)` is the stream itself.

    >>> str(Flow("1", "1")), str(Flow("1", "3"))
    ('S_1', 'S^1_3')
    """

    head: str
    last: str

    def __str__(self) -> str:
        return f"S_{self.last}" if self.head == self.last else f"S^{self.head}_{self.last}"


class Step(NamedTuple):
    """A one-way join of a sequence, and where it takes place."""

    flow: Flow
    """What probes."""
    stream: str
    """Whose window is probed."""
    placement: int
    source: str
    """The node at which the flow is produced."""
    node: str
    """The node at which the join takes place, so that what it gives is produced there."""

    @property
    def result(self) -> Flow:
        """Return the flow that the join gives."""
        return Flow(self.flow.head, self.stream)


@dataclass(frozen=True)
class ProbeSequence:
    """What new rows of one stream probe, in order, and whether at the source (0) or at the destination (1) (SEP).

    >>> print(ProbeSequence("2", ("1", "3"), (0, 1)))
    SEP_2 = ([S_1, S_3], [0, 1])
    """

    head: str
    order: tuple[str, ...]
    placements: tuple[int, ...]

    def __post_init__(self) -> None:
        name = f"the probe sequence of '{self.head}'"
        if QUERY_NODE in (self.head, *self.order):
            raise PlanError(f"'{QUERY_NODE}' is the name of the query site; give the stream another alias")
        if self.head in self.order or len(set(self.order)) != len(self.order):
            raise PlanError(f"{name} names a stream twice: {', '.join(self.order)}")
        if len(self.placements) != len(self.order):
            raise PlanError(f"{name} has {len(self.order)} joins and {len(self.placements)} placements")
        if not set(self.placements) <= {AT_SOURCE, AT_DESTINATION}:
            raise PlanError(f"{name} has a placement that is neither 0 (source) nor 1 (destination)")

    def __str__(self) -> str:
        streams = ", ".join(f"S_{alias}" for alias in self.order)
        return f"SEP_{self.head} = ([{streams}], [{', '.join(map(str, self.placements))}])"

    def steps(self) -> Iterator[Step]:
        """Yield the one-way joins in order, each with the node at which it takes place.

        >>> [step.node for step in ProbeSequence("3", ("1", "2", "4"), (0, 1, 0)).steps()]
        ['3', '2', '2']
        """
        flow, source = Flow(self.head, self.head), self.head
        for stream, placement in zip(self.order, self.placements, strict=True):
            step = Step(flow, stream, placement, source, stream if placement == AT_DESTINATION else source)
            yield step
            flow, source = step.result, step.node

    def to_json(self) -> dict[str, Any]:
        """Return the sequence as JSON holds it."""
        return {"head": self.head, "order": list(self.order), "placements": list(self.placements)}


@dataclass(frozen=True)
class SitesPlan:
    """A probe sequence for every stream of a join, in declaration order (JEP)."""

    sequences: tuple[ProbeSequence, ...]

    def __post_init__(self) -> None:
        aliases = self.aliases
        if len(aliases) < 2:
            raise PlanError("a plan over sites joins two streams or more")
        if len(set(aliases)) != len(aliases):
            raise PlanError(f"a plan over sites has one probe sequence for each stream, not {', '.join(aliases)}")
        for sequence in self.sequences:
            if {sequence.head, *sequence.order} != set(aliases):
                raise PlanError(f"{sequence} does not name each of {', '.join(aliases)} once")

    def __str__(self) -> str:
        return "\n".join(map(str, self.sequences))

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the aliases of the streams, and so the names of their nodes, in declaration order."""
        return tuple(s.head for s in self.sequences)

    def of(self, head: str) -> ProbeSequence:
        """Return the sequence of a head stream."""
        return next(s for s in self.sequences if s.head == head)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON holds it."""
        return {"sequences": [s.to_json() for s in self.sequences]}


def read_sites_plan(written: Mapping[str, Any]) -> SitesPlan:
    """Read a plan that `to_json` has written."""
    try:
        return SitesPlan(tuple(_read_sequence(s) for s in written["sequences"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise PlanError(f"this is no plan over sites: {error!r}") from error


def _read_sequence(written: Mapping[str, Any]) -> ProbeSequence:
    order: Sequence[str] = written["order"]
    return ProbeSequence(written["head"], tuple(order), tuple(int(p) for p in written["placements"]))
