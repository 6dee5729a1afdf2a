"""Migration: an execution between two plans. It works on trees of joins, and ends with the new one."""

from abc import abstractmethod
from collections.abc import Sequence

from midstream.model.errors import StateError
from midstream.operators.contract.execution import Execution, PlanSwitch, StateSize, Switched
from midstream.operators.sliding.join import Join
from midstream.operators.sliding.state_size import live_in, size_of


class Migration(Execution):
    """What the executions of all strategies share."""

    @abstractmethod
    def joins(self) -> Sequence[Join]:
        """Return the joins at work, of both plans."""

    def size(self) -> StateSize:
        """Return what the joins of both plans hold."""
        return size_of(self.joins())

    def live_entries(self, now_us: int, seq: int) -> int:
        """Return how many entries of the joins can still match."""
        return live_in(self.joins(), now_us, seq)

    def switch_plan(self, switch: PlanSwitch) -> Switched:
        """Refuse: one migration ends before the next one begins, unless the strategy `overlaps`."""
        raise StateError(f"{type(self).__name__} is under way; the next migration waits for its end")
