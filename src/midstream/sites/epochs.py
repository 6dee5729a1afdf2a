"""Epochs: which operator set of a node is for which heads.

    ... old operator set ...│P        new operator set ...
                            heads from the event time P on

A modification takes effect at a position, an event time that all affected nodes know before one of them works on a head
from there on. A node that is not affected has the same operators on both sides of it, and need not know it. So who
looks at a head knows what is to be done with it, whatever is on its way between nodes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from midstream.model.time import FOREVER, NEVER
from midstream.sites.operator_set import Join, OperatorSet, Ship, read_operator_set
from midstream.sites.plan import Flow


@dataclass
class Epoch:
    """The operator set of a node for heads from a time on, until the next epoch begins."""

    number: int
    """The modification that brought it; 0 for the plan at the start."""
    start_us: int
    operators: OperatorSet
    reached: dict[Flow, int] = field(default_factory=dict)
    """Up to which time the heads of a flow have been worked on."""

    def __post_init__(self) -> None:
        self.joins = [o for o in self.operators.operators if isinstance(o, Join)]
        self._join = {o.flow: o for o in self.joins}
        self._ships: dict[Flow, list[str]] = {}
        for o in self.operators.operators:
            if isinstance(o, Ship):
                self._ships.setdefault(o.flow, []).append(o.to)

    def ships(self, flow: Flow) -> list[str]:
        """Return the nodes that a flow is shipped to."""
        return self._ships.get(flow, [])

    def run(self, flow: Flow) -> list[Join]:
        """Return the joins that take place here one after the other, from a flow on."""
        found = list[Join]()
        while (join := self._join.get(flow)) is not None:
            found.append(join)
            flow = Flow(flow.head, join.stream)
        return found

    def takes(self, flow: Flow) -> bool:
        """Tell whether a join takes a flow here."""
        return flow in self._join

    def reached_us(self, flow: Flow) -> int:
        """Return the time from which on the heads of a flow have not been worked on."""
        return max(self.start_us, self.reached.get(flow, NEVER))


class Epochs:
    """The epochs of a node that are not over, in order. Invariant: there is one, and their starts do not decrease."""

    def __init__(self, first: Epoch) -> None:
        self._all = [first]

    @property
    def latest(self) -> Epoch:
        """Return the one that goes on."""
        return self._all[-1]

    def __iter__(self) -> Iterator[tuple[Epoch, int]]:
        """Yield each epoch with the time it ends before."""
        ends = [e.start_us for e in self._all[1:]]
        return iter(zip(self._all, [*ends, FOREVER], strict=True))

    def begin(self, epoch: Epoch) -> None:
        """Let another operator set be for the heads from a time on."""
        assert epoch.start_us >= self.latest.start_us, "modifications take effect one after the other"
        self._all.append(epoch)

    def spans(self, low_us: int, high_us: int) -> Iterator[tuple[Epoch, int, int]]:
        """Cut a span of heads where epochs meet."""
        for epoch, end_us in self:
            low, high = max(low_us, epoch.start_us), min(high_us, end_us)
            if low < high:
                yield epoch, low, high

    def next_us(self, flow: Flow) -> int | None:
        """Return the first time from which on a flow is wanted here, or None."""
        for epoch, end_us in self:
            if epoch.takes(flow) and epoch.reached_us(flow) < end_us:
                return epoch.reached_us(flow)
        return None

    def forget_done(self, upto_us: int) -> None:
        """Forget the epochs that are over, as far as a time: all their joins have been done."""
        for epoch, end_us in list(self)[:-1]:
            if end_us > upto_us or any(epoch.reached_us(j.flow) < end_us for j in epoch.joins):
                return
            self._all.pop(0)

    def to_json(self) -> list[Any]:
        """Return the epochs as JSON holds them."""
        reached = [[[f.head, f.last, us] for f, us in e.reached.items()] for e in self._all]
        return [[e.number, e.start_us, e.operators.to_json(), r] for e, r in zip(self._all, reached, strict=True)]

    @staticmethod
    def read(written: list[Any]) -> "Epochs":
        """Read epochs that `to_json` has written."""
        found = [
            Epoch(number, start_us, read_operator_set(o), {Flow(head, last): us for head, last, us in reached})
            for number, start_us, o, reached in written
        ]
        epochs = Epochs(found[0])
        epochs._all = found
        return epochs


def first_epoch(operators: OperatorSet) -> Epochs:
    """Return the epochs of a node that begins."""
    return Epochs(Epoch(0, NEVER, operators))
