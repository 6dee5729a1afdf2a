"""The size of join operators: their states, each counted once, and the indexes over them."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from midstream.operators.contract.execution import StateSize


class Held(Protocol):
    """Something whose memory is counted."""

    @property
    def nbytes(self) -> int:
        """Return the memory held."""


class HeldEntries(Held, Protocol):
    """Entries that are counted."""

    count: int


class HoldsState(Protocol):
    """An operator with states and an index over them."""

    @property
    def states(self) -> Sequence[HeldEntries]:
        """Return its states; two operators may share one."""

    @property
    def index(self) -> Held:
        """Return the index over its states."""


def size_of(operators: Iterable[HoldsState]) -> StateSize:
    """Return what operators hold."""
    operators = list(operators)
    states = {id(s): s for operator in operators for s in operator.states}.values()
    nbytes = sum(s.nbytes for s in states) + sum(operator.index.nbytes for operator in operators)
    return StateSize(sum(s.count for s in states), nbytes)
