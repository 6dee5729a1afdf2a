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
from midstream.operators.aggregate.stage import WindowStage
from midstream.operators.contract.execution import Execution, StateSize
from midstream.operators.source.sources import Sources
from midstream.plan.expr import Expr
from midstream.plan.window import RangeWindow


@dataclass
class Drain:
    """A drain under way: results that hold a row from before the position are still to come, until `over_us`."""

    position_us: int
    over_us: int
    waits: bool = False
    """A counted window of a join held an older row when last asked."""

    def see(self, stage: WindowStage) -> None:
        """Note the window instances with older rows that a stage has just closed."""
        closed = stage.last_closed_us(self.position_us)
        if closed is not None:
            self.over_us = max(self.over_us, closed + (0 if stage.timed else 1))


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

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the operators have tested so far."""
        return self.sources.predicate_evaluations

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
    def on_rows(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> Results:
        """Take in the rows of one slice and return the results they complete.

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
    def drains(self) -> bool:
        """Tell whether somebody watches for the end of what began before a position."""
        return self._drain is not None

    def drain(self, position_us: int) -> None:
        """Watch from now on whether a row from before a position can still be part of a result."""
        self._drain = Drain(position_us, position_us)
        for stage in self.stages:
            stage.traced = True

    def drained_us(self, seq: int) -> int | None:
        """Return from which time on no result holds a row from before the drain's position; None: that may be still.

        `seq` is the last sequence number that has arrived.
        """
        drain = self._drain
        assert drain is not None, "nobody asked for a drain"
        if any(stage.holds_before(drain.position_us) for stage in self.stages):
            return None
        scans = list(self.sources.scans.values())
        for scan in scans if len(scans) > 1 else ():
            window = scan.spec.window
            if isinstance(window, RangeWindow):
                drain.over_us = max(drain.over_us, drain.position_us + window.width_us)
                if self.clock_us < drain.position_us + window.width_us:
                    return None
            elif scan.holds_older_than(drain.position_us, seq):
                drain.waits = True
                return None
        if drain.waits:
            # Exact when rows come one instant at a time.
            drain.waits = False
            drain.over_us = max(drain.over_us, self.clock_us + 1)
        return drain.over_us

    @property
    def counts_rows(self) -> bool:
        """Tell whether a joined window counts rows: when a row leaves it is then a matter of the rows that come."""
        scans = self.sources.scans.values()
        return len(scans) > 1 and any(not isinstance(s.spec.window, RangeWindow) for s in scans)
