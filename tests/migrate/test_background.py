"""Background computation keeps to its budget, in every step, and what it has found counts as state."""

import numpy as np
import pyarrow as pa
import pytest
from migrate.test_papers import SECOND, case_of, migrate, running

from benchmarks.direct import DirectRun
from midstream.migrate.hybrid import Hybrid
from oracle.generate import Case
from oracle.test_moved_states import rows_between
from seeds import few_quick

BLOCK = 64
"""How far a step may go beyond its budget."""


def hot_case(rows: int, keys: int) -> Case:
    """Return a join of three streams with few keys: each row has many partners."""
    case = case_of("abc")
    rng = np.random.default_rng(3)
    for name in case.streams:
        times = np.arange(rows) * (6 * SECOND // rows)
        case.streams[name] = pa.table({"ts": times, "k": rng.integers(0, keys, rows)})
        case.windows[name] = ("range", 4 * SECOND, [])
    return case


def steps_of(runtime: DirectRun, case: Case, budget: int, join: str) -> list[tuple[int, int]]:
    """Go on in small micro-batches; return the evaluations and the growth of the states in each step of background."""
    spent: list[tuple[int, int]] = []
    migrate(runtime, "(a (b c))", "hybrid", 3 * SECOND, background=True, budget=budget)
    for rows in rows_between(case, runtime, [*range(3 * SECOND, 6 * SECOND, SECOND // 20)])[1:]:
        for _ in runtime.on_rows(rows):
            pass
        hybrid = runtime.pipelines[0].execution
        if isinstance(hybrid, Hybrid):
            before = runtime.predicate_evaluations, hybrid.size().tuples
            runtime.migrators[0].work(runtime.next_seq - 1)
            spent.append((runtime.predicate_evaluations - before[0], hybrid.size().tuples - before[1]))
    return spent


@pytest.mark.parametrize("join", ["auto", "nested-loop"])
@pytest.mark.parametrize("budget", few_quick([50, 1, 400]))
def test_no_step_goes_beyond_its_budget(join: str, budget: int) -> None:
    case = hot_case(120, 4)
    spent = steps_of(running(case, 3 * SECOND, "((a b) c)", join), case, budget, join)
    assert max(evaluations for evaluations, _ in spent) <= budget + BLOCK
    assert sum(evaluations for evaluations, _ in spent) > 0, "every step gets somewhere"
    assert max(grown for _, grown in spent) <= budget + BLOCK, "entries are added as they are found, none at the end"


@pytest.mark.parametrize("join", ["auto", "nested-loop"])
def test_entries_found_are_part_of_the_state_at_once(join: str) -> None:
    case = hot_case(120, 4)
    spent = steps_of(running(case, 3 * SECOND, "((a b) c)", join), case, 200, join)
    first = spent[0]
    assert first[1] > 0
    assert first[1] <= first[0]
