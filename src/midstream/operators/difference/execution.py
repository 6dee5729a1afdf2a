"""Difference execution: the rows taken in, coded by their values, through a chain of differences.

rows taken in ──▶ values as codes ──▶ difference chain ──▶ changes

State: that of the chain. A migration gives the chain another order; what its levels do not know yet, they learn just in
time.
"""

import numpy as np

from midstream.kernels.arrays import Matrix
from midstream.operators.contract.execution import Execution, PlanSwitch, Progress, StateSize, Switched
from midstream.operators.difference.chain import CodedRows, DifferenceChain, Reordering
from midstream.operators.expression.codes import partition_codes
from midstream.operators.expression.evaluate import evaluate_all
from midstream.operators.source.scan import TakenRows, spread
from midstream.operators.source.sources import Renumbering, Sources, Taken
from midstream.plan.expr import Expr


class DifferenceExecution(Execution):
    """A chain of differences over the sources of a query.

    Invariant: what `on_rows` returns are changes (see `kernels.difference`), in the order of events; they name rows of
    the first component.
    """

    divides_work = True

    def __init__(self, chain: DifferenceChain, sources: Sources, values: dict[str, tuple[Expr, ...]]) -> None:
        self.chain = chain
        self.sources = sources
        self.values = values
        """What is compared, by alias: as many expressions each, of the same types."""
        self.components = chain.order[:1]
        self._reordering = Reordering((), ())

    def on_rows(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Run rows through the chain and return the changes of the answer."""
        before = self.chain.predicate_evaluations
        changes = self.chain.on_rows({a: self._coded(a, taken) for a, taken in rows.items() if len(taken.arrived)})
        self.sources.predicate_evaluations += self.chain.predicate_evaluations - before
        return changes

    def _coded(self, alias: str, taken: TakenRows) -> CodedRows:
        """Return all rows that arrived, those that were taken in with their numbers and values."""
        arrived, count = taken.arrived, len(taken.rows)
        columns = taken.rows.columns
        codes = partition_codes(evaluate_all(self.values[alias], count, lambda c: columns[c.name]))
        numbers = np.arange(taken.first, taken.first + count, dtype=np.int64)
        if taken.passed is not None:
            numbers, codes = spread(numbers, taken.passed, -1), spread(codes, taken.passed, 0)
        return CodedRows(arrived.times, arrived.seqs, numbers, codes, taken.pushed)

    def switch_plan(self, switch: PlanSwitch) -> Switched:
        """Go on in another order of the chain, at once; levels that are new learn just in time."""
        self._reordering = self.chain.migrate(switch.order)
        return Switched(self, self.progress())

    def overlaps(self, strategy: str) -> bool:
        """Say yes: a level that is incomplete stays so in any further order."""
        return True

    def progress(self) -> Progress:
        """Return how many levels the last order had too, and how many of the others are complete."""
        found = self._reordering
        incomplete = len(found.incomplete)
        return Progress(
            states_matched=len(found.matched),
            states_incomplete=incomplete,
            states_completed=incomplete - len(self.chain.pending),
        )

    def successor(self, now_us: int, seq: int) -> Execution | None:
        """Return the chain itself once every level is complete."""
        return None if self.chain.pending else self

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        self.chain.renumber(change.alias, change.places, change.base)

    def size(self) -> StateSize:
        """Return what the windows and the levels of the chain hold now."""
        return StateSize(self.chain.state_tuples, self.chain.nbytes)
