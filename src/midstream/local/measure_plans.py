"""Measure plans of one hopping query on generated rows, side by side: what each takes per hop, and what it looks at.

rows ──▶ each plan in turn, hop by hop ──▶ tuples and pairs looked at, nanoseconds; the answers must be the same
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from midstream.operators.hopping.build_execution import HopExecution
from midstream.plan.plan import Plan


@dataclass
class PlanSeen:
    """What a plan has done at each hop, the first one apart, which fills the windows."""

    tested: list[int] = field(default_factory=list)
    """Tuples, pairs and values its operators have looked at."""
    ns: list[float] = field(default_factory=list)
    """Processor time of this process, from rows to the answer: others on the machine do not count."""
    flips: list[int] = field(default_factory=list)
    """How often values came into differences or left them before their time."""


def feed(execution: HopExecution, tables: Mapping[str, pa.Table], start_us: int, end_us: int, next_us: int) -> None:
    """Give an execution the rows of a stretch of time, for a hop to come."""
    for source in execution.plan.query.sources:
        table = tables[source.stream.name]
        stamps = table.column("ts").to_numpy()
        low, high = np.searchsorted(stamps, [start_us, end_us])
        part = table.slice(low, high - low)
        columns = {n: part.column(n).combine_chunks() for n in part.column_names}
        execution.add(source.alias, columns, stamps[low:high], np.arange(low, high), next_us)


def measure_plans(
    plans: Mapping[str, Plan], tables: Mapping[str, pa.Table], first_us: int, hop_us: int, hops: int, slices: int = 1
) -> dict[str, PlanSeen]:
    """Run plans side by side from time 0: the first hop is at `first_us`. Plans that work by tuple do so in slices."""
    running = {name: HopExecution(plan) for name, plan in plans.items()}
    found = {name: PlanSeen() for name in plans}
    for number, (start, end) in enumerate(pairwise([0, *(first_us + k * hop_us for k in range(hops + 1))])):
        answers = set()
        for name, execution in running.items():
            before = execution.tested, execution.flips
            started = time.process_time_ns()
            cuts = np.linspace(start, end, slices + 1).astype(np.int64) if execution.eager else [start, end]
            for a, b in pairwise(int(c) for c in cuts):
                feed(execution, tables, a, b, end)
                if execution.eager and b < end:
                    execution.work(end)
            answers.add(sum(batch.num_rows for batch in execution.answer(end)))
            ended = time.process_time_ns()
            if number:
                seen = found[name]
                seen.ns.append(float(ended - started))
                seen.tested.append(execution.tested - before[0])
                seen.flips.append(execution.flips - before[1])
        assert len(answers) == 1, "every plan gives the same answer"
    return found
