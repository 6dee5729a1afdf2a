"""Studies of hopping: stores hold what they are to hold, and what is counted does not depend on the run."""

import pytest

from midstream.local.measure_stores import BAG, FIFO, HASH, deltas, store_steps
from midstream.plan.algebra import operators
from midstream.studies.multimode.rows import query_of
from midstream.studies.multimode.switch import HOP_MS, SQL, assigned


def test_nothing_taken_back_is_two_steps_a_tuple_in_a_list() -> None:
    steps = store_steps(1_000, 100, 30, 0.0, 1)
    assert steps[FIFO] == 200, "a hundred come and a hundred are over"
    assert steps[HASH] == 1_200, "two steps for each that comes, and all are looked at"
    assert steps[FIFO] < steps[BAG] < 2 * steps[FIFO]
    assert store_steps(1_000, 100, 30, 0.3, 1) == store_steps(1_000, 100, 30, 0.3, 1)


@pytest.mark.parametrize("taken_back", [0.0, 0.2])
def test_what_is_taken_back_was_there(taken_back: float) -> None:
    held: set[int] = set()
    for number, came, gone in deltas(500, 50, 25, taken_back, 3):
        held = {t for t in held if t >= (number + 1) * 50 - 500} | set(came.tolist())
        assert set(gone.tolist()) <= held
        assert bool(len(gone)) == (taken_back > 0 and number > 0)
        held -= set(gone.tolist())


def test_the_plan_of_the_thesis_goes_over_to_deltas_and_back() -> None:
    query = query_of(SQL.format(w=5_000, h=HOP_MS), "abc")
    named = list(zip((type(rel).__name__ for rel in operators(query.root)), assigned(query), strict=True))
    assert ("Except", "CIDO") in named
    assert ("Join", "DICO") in named
    assert {mode for name, mode in named if name == "Project"} == {"CICO"}
