"""Execution: whatever answers the query from the rows taken in: a join tree, a migration between two, an eddy."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from midstream.operators.source.sources import Renumbering, Taken

Matrix = npt.NDArray[np.int64]


class Held(Protocol):
    """Something whose size is counted in."""

    @property
    def nbytes(self) -> int:
        """Return the memory held."""


class HeldEntries(Held, Protocol):
    """Entries that are counted in."""

    count: int


class HoldsState(Protocol):
    """An operator with states and an index over them."""

    @property
    def states(self) -> Sequence[HeldEntries]:
        """Return its states; two operators may share one."""

    @property
    def index(self) -> Held:
        """Return the index over its states."""


class Execution(ABC):
    """Answers one query.

    Invariant: every result leaves once, in order of its latest row, unless it is held back on purpose.
    """

    components: tuple[str, ...]
    """Aliases in the order of a result's row numbers."""

    @abstractmethod
    def on_rows(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Return the results that the rows complete, in order of their latest row.

        `now_us` is the time of the first row and `seq` the last sequence number before it.
        """

    @abstractmethod
    def joins(self) -> Sequence[HoldsState]:
        """Return the operators at work."""

    @abstractmethod
    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""

    def held_back(self) -> Matrix | None:
        """Return results of the last call that must leave later, or None."""
        return None

    def work(self, now_us: int, seq: int) -> None:  # noqa: B027 - most have nothing to do
        """Do what can be done between micro-batches."""

    def successor(self, now_us: int, seq: int) -> "Execution | None":
        """Return what goes on in its place from `now_us` on, or None when it is not over."""
        return None
