"""Pipeline: the operators of one query in one bucket, from arriving rows to results.

arrivals ──▶ sources ──▶ execution ──▶ project ──▶ windows over the results, if any ──▶ results

State: that of the sources, of the execution and of the windows over results. A migration replaces the execution; the
others stay.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from midstream.kernels.arrays import Matrix
from midstream.model.batch import TRIGGER, Arrival, Results
from midstream.model.effort import Effort
from midstream.model.time import FOREVER
from midstream.operators.aggregate.stage import WindowStage
from midstream.operators.contract.ends import Ends
from midstream.operators.contract.execution import Execution, StateSize
from midstream.operators.source.sources import Sources
from midstream.plan.expr import Expr
from midstream.plan.window import RangeWindow


@dataclass
class Drain:
    """A drain under way: results that hold a row from before the position are still to come, until `over_us`."""

    position_us: int
    over_us: int
    goes_on: bool = False
    """New windows are opened all the same: somebody only wants to know when the old rows are gone."""
    closes: bool = False
    """The last window over results, the paper's dominant operator, opens nothing any more: below it all is over."""


class Pipeline(ABC):
    """What every query's operators do for the engine.

    Rows come in by `on_rows`, time by `tick`; both return the results that leave. Results that an execution holds back
    wait for `release`. `drain` starts to watch for the end of what began before a position, `drained_us` reports it.
    """

    def __init__(
        self,
        sources: Sources,
        execution: Execution,
        outputs: list[tuple[str, Expr]],
        one_of_many: bool,
        stages: Sequence[WindowStage] = (),
    ) -> None:
        self.sources = sources
        self.execution = execution
        self.outputs = outputs
        self.one_of_many = one_of_many
        """Results of other buckets are merged in."""
        self.ordered = one_of_many or bool(stages)
        """Results have their order: their place among those of other buckets."""
        self.stages = list(stages)
        """Windows over the results, the lowest first."""
        self.held: list[Results] = []
        """Results an execution holds back until it is over."""
        self.clock_us = -(2**63)
        """Rows below this time have all been seen."""
        self._drain: Drain | None = None
        self.ends = Ends()
        """When rows left the windows, while a change asks."""

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the operators have tested so far."""
        return self.sources.predicate_evaluations

    @property
    def effort(self) -> Effort:
        """Return what the operators have done so far."""
        return self.sources.effort

    def live_entries(self, now_us: int, seq: int) -> int:
        """Return how many entries can still match a row at a time or later."""
        return self.execution.live_entries(now_us, seq)

    @property
    def order_width(self) -> int:
        """Return how many columns the order of a result has; see `Results`."""
        width = TRIGGER + 2 * len(self.sources.scans)
        for stage in self.stages:
            width = stage.order_width
        return width

    def size(self) -> StateSize:
        """Return what the states hold now."""
        size = self.execution.size()
        for stage in self.stages:
            size.add(StateSize(stage.tuples, stage.nbytes))
        size.add(StateSize(0, self.sources.nbytes))
        return size

    @abstractmethod
    def on_rows(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> list[Results]:
        """Take in the rows of one slice and return the results they complete, in one piece or in several.

        `now_us` is the time of the slice's first row and `seq` the last sequence number before it. Rows before the
        slice's last one have all been seen afterwards, here and in other buckets.
        """

    @abstractmethod
    def tick(self, clock_us: int) -> Results:
        """Return what time alone brings."""

    @abstractmethod
    def trace(self, on: bool = True) -> None:
        """Let results have their order and lineage from now on, for a change of the query; or not."""

    @abstractmethod
    def project(self, results: Matrix, held: bool = False) -> Results:
        """Return what is selected of results of the execution; `held` when they leave later."""

    @abstractmethod
    def expires_upto_us(self, last_row_us: int | None, clock_us: int) -> int | None:
        """Return up to which time rows that have left their windows are not needed any more."""

    def release(self) -> list[Results]:
        """Return the results that were held back, and forget them."""
        released, self.held = self.held, []
        return released

    @property
    def drain_us(self) -> int | None:
        """Return the position that somebody watches for the end of what began before it, or None."""
        return None if self._drain is None else self._drain.position_us

    def drain(self, position_us: int, goes_on: bool = False, over_us: int | None = None, closes: bool = False) -> None:
        """Watch from now on whether a row from before a position can still be part of a result.

        Windows without such a row are not opened any more, unless it `goes_on`. `over_us` and `closes` are how far that
        has come, where it was watched before.
        """
        self._drain = Drain(position_us, position_us if over_us is None else over_us, goes_on, closes)
        for stage in self.stages:
            stage.traced = True
        for dominant in self.stages[-1:] if closes else ():
            dominant.drain(position_us)
        self._see_drain()

    def _see_drain(self) -> None:
        """Note the ends of older rows."""
        drain = self._drain
        if drain is None:
            return
        last_us = self.ends.last_us(drain.position_us)
        drain.over_us = max(drain.over_us, drain.position_us if last_us is None else last_us)

    def drain_so_far(self) -> tuple[int, bool, int, bool] | None:
        """Return what `drain` is to be called with after a restart, or None."""
        drain = self._drain
        return None if drain is None else (drain.position_us, drain.goes_on, drain.over_us, drain.closes)

    def drained_us(self, seq: int) -> int | None:
        """Return from which time on no result holds a row from before the drain's position; None: that may be still.

        `seq` is the last sequence number that has arrived.
        """
        drain = self._drain
        assert drain is not None, "nobody asked for a drain"
        if any(stage.holds_before(drain.position_us) for stage in self.stages[:-1]) or self._joins_hold(drain, seq):
            return None
        for dominant in self.stages[-1:]:
            if not drain.goes_on:
                drain.closes = True
                dominant.drain(drain.position_us)
            if dominant.holds_before(drain.position_us):
                return None
        return drain.over_us

    def holds_before(self, position_us: int, now_us: int, seq: int, stages: int) -> bool:
        """Tell whether a row from before a position can be part of a join at `now_us`, after `seq`, or is in a window.

        Only the lowest `stages` windows over the joins are asked.
        """
        if any(stage.holds_before(position_us) for stage in self.stages[:stages]):
            return True
        scans = self.sources.scans.values()
        return any(scan.holds_before(scan.number_at(position_us), now_us, seq) for scan in scans)

    def succeed(self, before: "Pipeline", stages: int) -> None:
        """Go on in place of another pipeline of the query: windows above the lowest `stages` are taken over from it."""
        for stage in self.stages[:stages]:
            stage.write_anew()
        self.stages[stages:] = before.stages[stages:]
        self.ends = before.ends
        drain = before.drain_so_far()
        if drain is not None:
            self.drain(*drain)

    def _joins_hold(self, drain: Drain, seq: int) -> bool:
        """Tell whether a joined window still holds a row from before the position."""
        scans = list(self.sources.scans.values())
        for scan in scans if len(scans) > 1 else ():
            window = scan.spec.window
            if isinstance(window, RangeWindow):
                drain.over_us = max(drain.over_us, drain.position_us + window.width_us)
                if self.clock_us < drain.position_us + window.width_us:
                    return True
            elif scan.holds_older_than(drain.position_us, seq):
                return True
        return False

    def oldest_us(self, seq: int) -> int:
        """Return the time of the oldest row that a result to come may hold; FOREVER for none."""
        scans = list(self.sources.scans.values())
        found = [stage.oldest_us for stage in self.stages]
        found += [scan.oldest_us(self.clock_us, seq) for scan in scans if len(scans) > 1]
        return min(found, default=FOREVER)
