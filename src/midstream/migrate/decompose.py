"""Decomposition: cut a migration into tasks that share nothing, at the joins both plans have.

    (((a b) c) d) ──▶ ((a b) (c d))   =   (a b) stays,   task over e = (a b):  ((e c) d) ──▶ (e (c d))

Whatever both plans compute is computed once: inside a task it counts as a source.
"""

from dataclasses import dataclass

from midstream.operators.contract.execution import Parts
from midstream.operators.sliding.tree import JoinTree, Step


@dataclass(frozen=True)
class Task:
    """The part of a migration that computes `parts` from `sources`.

    Invariant: the old and the new steps share no result but `parts`. A trivial task has one step of each.
    """

    parts: Parts
    sources: tuple[Parts, ...]
    old: tuple[Step, ...]
    new: tuple[Step, ...]

    @property
    def trivial(self) -> bool:
        """Tell whether there is nothing to migrate."""
        return len(self.new) == 1


def decompose(old: JoinTree, new: JoinTree, share: bool = True) -> list[Task]:
    """Return the tasks of a migration, those that produce sources of others first.

    Without sharing there is one task from the single sources to the result.
    """
    whole = frozenset(new.components)
    singles = [frozenset([alias]) for alias in sorted(whole)]
    common = {s.parts for s in old.steps} & {s.parts for s in new.steps} if share else {whole}
    tasks = []
    for parts in sorted(common, key=lambda p: (len(p), sorted(p))):
        below = [c for c in (*common, *singles) if c < parts]
        sources = tuple(sorted((c for c in below if not any(c < d for d in below)), key=sorted))
        tasks.append(Task(parts, sources, _steps(old, parts, sources), _steps(new, parts, sources)))
    return tasks


def _steps(tree: JoinTree, parts: Parts, sources: tuple[Parts, ...]) -> tuple[Step, ...]:
    """Return the steps of a tree that lie between the sources and the result of a task."""
    return tuple(s for s in tree.steps if s.parts <= parts and not any(s.parts <= source for source in sources))
