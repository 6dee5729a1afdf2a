"""The contract of executions: what the engine, migrations and changes may ask of whatever answers a query.

The life of an execution:

1. Rows come in: `on_rows` takes the rows of one slice and returns the results that they complete; `in_pieces` yields
   them, where results are made of something that need not be there all at once.
2. Between micro-batches, `work` does what can be done in spare time.
3. What leaves later, `held_back` returns; it leaves at `released_at_us` when the execution is over.
4. The plan changes: `switch_plan` returns the execution that goes on. One that can reorder its own work returns itself;
   one that needs another tree of joins lets the strategy make it.
5. While two plans are at work, or states are incomplete, `successor` says from when on something simpler goes on in its
   place; `next_cut_us` when that must be asked, `progress` what has been done so far.
6. Row stores number their rows anew: `renumber` follows.
7. After a restart rows come again. Where `replays` is true they go through `on_rows`, and what comes out is dropped;
   else they enter through `refill`, and what is derived from them is completed later.

The state is exported and imported by `snapshot`, which takes any execution apart into flat arrays. A pipeline puts the
sources before an execution and the projection after it, and knows when all has drained: see `contract.pipeline`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from midstream.kernels.arrays import Matrix
from midstream.operators.source.sources import Renumbering, Taken

Parts = frozenset[str]
"""A state, by the aliases of its entries."""


@dataclass
class StateSize:
    """What states hold."""

    tuples: int = 0
    nbytes: int = 0

    def add(self, other: "StateSize") -> None:
        """Count other states in."""
        self.tuples += other.tuples
        self.nbytes += other.nbytes


@dataclass(kw_only=True)
class Progress:
    """What a switch of plans has found and done so far."""

    states_matched: int = 0
    states_moved: int = 0
    """Of the matched: copied into another layout or shared with another join; the others' joins were kept whole."""
    states_incomplete: int = 0
    """States the old plan did not have; in a difference also those it had not completed."""
    states_completed: int = 0
    entries_completed: int = 0
    entries_demoted: int = 0
    """Live intermediate results of the old plan that the new one does not have, dropped at the switch."""
    keys_attempted: int = 0
    rows_buffered: int = 0


@dataclass(frozen=True)
class Switched:
    """The execution that goes on after a switch of plans, and what was found."""

    execution: "Execution"
    progress: Progress


class PlanSwitch(Protocol):
    """A plan to switch to, as an execution sees it."""

    @property
    def order(self) -> tuple[str, ...]:
        """Return the aliases of the new plan from left to right."""

    def rebuild(self, tree: Any, gaps: Mapping[Parts, Any]) -> Switched:
        """Let the strategy go on from a tree of joins, whose incomplete states are `gaps`."""


class Execution(ABC):
    """Answers one query from the rows taken in.

    Invariant: every result leaves once, in order of its latest row, unless it is held back on purpose.
    """

    components: tuple[str, ...]
    """Aliases in the order of a result's row numbers."""

    divides_work = False
    """Two plans, or two orders, answer until the switch is complete: a restart has to repeat the switch."""

    replays = True
    """After a restart rows go through it again; else they are refilled."""

    @abstractmethod
    def on_rows(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Return the results that the rows complete, in order of their latest row.

        `now_us` is the time of the first row and `seq` the last sequence number before it.
        """

    def in_pieces(self, rows: Taken, now_us: int, seq: int) -> Iterator[Matrix]:
        """Yield at least one piece of what `on_rows` returns, to be read to the end; each is there until the next.

        Results that share their latest row are in one piece.
        """
        yield self.on_rows(rows, now_us, seq)

    @abstractmethod
    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""

    @abstractmethod
    def size(self) -> StateSize:
        """Return what the states hold, rows whose end was not noticed yet included; shared states count once."""

    def live_entries(self, now_us: int, seq: int) -> int:
        """Return how many entries can still match a row at a time or later; where nobody counts them, all there are."""
        return self.size().tuples

    @abstractmethod
    def switch_plan(self, switch: PlanSwitch) -> Switched:
        """Return what goes on with another plan from the next row on."""

    def overlaps(self, strategy: str) -> bool:
        """Tell whether a migration by a strategy may start while an earlier switch is not complete."""
        return False

    def held_back(self) -> Matrix | None:
        """Return results of the last call that must leave later, or None."""
        return None

    def hold_nothing_back(self) -> None:  # noqa: B027 - most never do
        """Let results leave in max order from now on, whatever was asked for."""

    def released_at_us(self, now_us: int) -> int | None:
        """Return when what was held back leaves, once there is a successor at `now_us`; None: nothing was."""
        return None

    def work(self, now_us: int, seq: int) -> None:  # noqa: B027 - most have nothing to do
        """Do what can be done between micro-batches."""

    def successor(self, now_us: int, seq: int) -> "Execution | None":
        """Return what goes on in its place from `now_us` on; None: the switch of plans is not complete."""
        return self

    def next_cut_us(self) -> int | None:
        """Return the next event time at which `successor` must be asked before rows go on."""
        return None

    def progress(self) -> Progress | None:
        """Return what the last switch of plans has done so far; None: nothing since it began."""
        return None

    def refill(self, rows: Taken, now_us: int, seq: int) -> None:
        """Take in rows again, after a restart, that have brought their results before."""
        raise NotImplementedError("rows go through this execution again after a restart")

    def warm_up(self) -> None:  # noqa: B027 - most have nothing to load
        """Load the kernels that a switch of plans needs, by calling them on nothing."""
