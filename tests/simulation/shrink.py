"""Shrink: less of a case that fails, as long as it fails: faults, users, micro-batches, rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from simulation.machine import Found
from simulation.scripts import without
from simulation.simulation import Case, simulate


def failure_of(case: Case) -> str | None:
    """Return what is wrong with a case, in a sentence, or None."""
    try:
        simulate(case)
    except (Exception, Found) as failure:
        return f"{type(failure).__name__}: {failure}"
    return None


def shrunk(case: Case, fails: Callable[[Case], str | None] = failure_of, most: int = 200) -> Case:
    """Return the smallest case that is found to fail, after so many tries at most."""
    tried = 0
    smaller = True
    while smaller:
        smaller = False
        for less in _less(case):
            tried += 1
            if tried > most:
                return case
            if fails(less):
                case, smaller = less, True
                break
    return case


def _less(case: Case) -> Iterator[Case]:
    """Yield cases that are a little smaller."""
    for faults in _pieces(case.faults):
        yield replace(case, faults=tuple(faults))
    if case.share:
        yield replace(case, share=0.0)
    script = case.script
    for actions in _pieces(script.actions):
        yield replace(case, script=without(script, actions=tuple(actions)))
    for batches in _pieces(script.batches):
        if batches:
            yield replace(case, script=without(script, batches=tuple(batches)))
    if len(script.labels) > 1:
        yield replace(case, script=without(script, labels=script.labels[:1]))
    for k, batch in enumerate(script.batches):
        for name, rows in batch.items():
            for half in ((), rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                if len(half) < len(rows):
                    batches = [*script.batches[:k], {**batch, name: half}, *script.batches[k + 1 :]]
                    yield replace(case, script=without(script, batches=tuple(batches)))


def _pieces(items: Sequence[object]) -> Iterator[list[object]]:
    """Yield the items without one half of them, then without one."""
    if len(items) > 3:
        half = len(items) // 2
        yield list(items[half:])
        yield list(items[:half])
    for k in reversed(range(len(items))):
        yield [*items[:k], *items[k + 1 :]]
