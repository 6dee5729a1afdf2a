"""Entries of states by the value of an equality class, also where their joins index them by something else.

a state, values of a class ──▶ the index of its join, if that is the class ──▶ entries
                          └──▶ a lookup of its own, kept for the next time ──▶ entries
"""

import numpy as np

from midstream.migrate.match import Moment
from midstream.operators.contract.execution import Parts
from midstream.operators.sliding.entry import KEY, ROWS, Mask, Matrix, Vector, values_of
from midstream.operators.sliding.lookup import Lookup
from midstream.operators.sliding.tree import Step
from midstream.operators.source.sources import Sources


class ClassEntries:
    """Finds entries by the values of equality classes. Entries from `newest` on are of no interest to anybody."""

    def __init__(self, sources: Sources, newest: int) -> None:
        self.sources = sources
        self._newest = newest
        self._lookups: dict[tuple[Parts, int], Lookup] = {}
        """Entries by equality classes that their joins do not index."""

    @property
    def nbytes(self) -> int:
        """Return the memory of the lookups."""
        return sum(lookup.nbytes for lookup in self._lookups.values())

    def has(self, step: Step, side: int, group: int) -> bool:
        """Return whether entries of a side have a value of an equality class."""
        members = self.sources.members.get(group)
        return not members or any(alias in members for alias in step.inputs[side].parts)

    def select(self, step: Step, side: int, group: int, keys: Vector, before: int, moment: Moment) -> Matrix:
        """Return the live entries of a side with one of some values, whose latest row is below `before`."""
        join = step.join
        if join.spec.hashed and join.spec.groups == (group,):
            return join.entries_with(side, keys, before, moment.now_us, moment.seq)
        state, slots, sources = join.states[side], join.states[side].slots, self.sources
        lookup = self._lookups.setdefault((step.inputs[side].parts, group), Lookup(group))
        found = lookup.entries(
            state,
            keys,
            lambda entries, slots: sources.live(entries, slots, self._newest, moment.now_us, moment.seq),
            lambda entries, components: self._values(group, entries, components),
        )
        return found[sources.live(found, slots, before, moment.now_us, moment.seq)]

    def values(self, step: Step, side: int, group: int, entries: Matrix) -> Vector:
        """Return the value of an equality class in each entry of a side."""
        if step.join.spec.groups == (group,):
            return entries[:, KEY]
        return self._values(group, entries, step.join.states[side].components)[0]

    def _values(self, group: int, entries: Matrix, components: tuple[str, ...]) -> tuple[Vector, Mask]:
        members = self.sources.members.get(group)
        if not members:
            return entries[:, KEY].copy(), np.ones(len(entries), np.bool_)
        alias = next(a for a in components if a in members)
        return self.stored(alias, members[alias], entries, components)

    def stored(self, alias: str, index: int, entries: Matrix, components: tuple[str, ...]) -> tuple[Vector, Mask]:
        """Return a stored code of an alias in each entry, and which entries have one."""
        store = self.sources.scans[alias].store
        return values_of(entries, ROWS + components.index(alias), store.codes[index].values.view(), store.base)


def lead(step: Step, side: int, entries: Matrix) -> Vector:
    """Return the values of a join's first equality class in entries of a side."""
    several = len(step.join.spec.groups) > 1
    return entries[:, ROWS + len(step.join.states[side].components) if several else KEY]
