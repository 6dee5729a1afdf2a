"""The size of join operators: their states, each counted once, and the indexes over them."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from midstream.operators.contract.execution import StateSize
from midstream.operators.sliding.join_state import JoinInputState


class HoldsState(Protocol):
    """An operator with states and indexes over them."""

    @property
    def states(self) -> Sequence[JoinInputState]:
        """Return its states; two operators may share one."""

    @property
    def index_bytes(self) -> int:
        """Return the memory of its indexes."""


def size_of(operators: Iterable[HoldsState]) -> StateSize:
    """Return what operators hold."""
    operators = list(operators)
    states = {id(s): s for operator in operators for s in operator.states}.values()
    nbytes = sum(s.nbytes for s in states) + sum(operator.index_bytes for operator in operators)
    return StateSize(sum(s.tuples for s in states), nbytes)
