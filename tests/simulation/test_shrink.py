"""A case that fails becomes as small as it can, and still fails."""

from simulation.faults import case_of
from simulation.shrink import shrunk
from simulation.simulation import Case


def test_what_does_not_matter_goes() -> None:
    case = next(c for c in map(case_of, range(40)) if len(c.faults) > 3 and len(c.script.actions) > 1)
    at = case.faults[2].at

    def fails(tried: Case) -> str | None:
        return "wrong" if any(f.at == at for f in tried.faults) and len(tried.script.batches) > 2 else None

    small = shrunk(case, fails, most=1000)
    assert [f.at for f in small.faults] == [at]
    assert len(small.script.batches) == 3
    assert not small.script.actions
    assert not any(rows for batch in small.script.batches for rows in batch.values())
