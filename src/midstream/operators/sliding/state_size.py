"""The size of join operators: their states, each counted once, and the indexes over them."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from midstream.model.time import FOREVER_US
from midstream.operators.contract.execution import StateSize
from midstream.operators.sliding.join_state import JoinInputState
from midstream.operators.source.sources import Sources


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


class Joins(HoldsState, Protocol):
    """An operator whose entries end with rows of its sources."""

    @property
    def sources(self) -> Sources:
        """Return the sources."""


def live_in(operators: Iterable[Joins], now_us: int, seq: int) -> int:
    """Return how many entries can still match a row at `now_us` or later that comes after `seq`."""
    states = {id(state): (state, operator.sources) for operator in operators for state in operator.states}
    alive = (sources.live(s.held, s.slots, FOREVER_US, now_us, seq) for s, sources in states.values())
    return sum(int(np.count_nonzero(mask)) for mask in alive)
