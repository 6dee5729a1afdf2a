"""SteM (state module): the window rows of one alias, to be met by partial results along any route.

    arriving rows   ──▶ insert ──▶ entries, indexed by the code of each equality class
    partial results ──▶ visit  ──▶ partial results with a row of this alias more

State: the entries and their indexes. Nothing that a join would have found is kept.
"""

from dataclasses import dataclass

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.entries import LINK, ROWS
from midstream.kernels.join import EQ
from midstream.kernels.key_index import LEFT_HEAD
from midstream.operators.sliding.join_state import JoinInputState
from midstream.operators.sliding.key_index import KeyIndex
from midstream.operators.source.scan import Leaf
from midstream.operators.source.sources import Renumbering, Sources
from midstream.plan.expr import Expr

Bits = int
"""A set of aliases, by their places in FROM: the bit vector of what is done."""

UNLINKED = -1


@dataclass(frozen=True)
class Code:
    """A code of a SteM's rows: its column in the entries, and its column in the partial results that carry it."""

    held: int
    carried: int


@dataclass(frozen=True)
class Condition:
    """What a code of a SteM must satisfy once one of `others` is done: the carried code `op` the code held."""

    others: Bits
    op: int
    carried: int
    held: int

    @property
    def is_equality(self) -> bool:
        """Tell whether an index can find the rows that satisfy it."""
        return self.op == EQ


@dataclass(frozen=True)
class StemSpec:
    """What a SteM does, without what it remembers."""

    alias: str
    place: int
    """The place of the alias in FROM."""
    leaf: Leaf
    """What is wanted of arriving rows; one with a null there can be part of no result."""
    codes: tuple[Code, ...]
    """The codes of its rows that partial results carry on."""
    conditions: tuple[Condition, ...]
    """Equality classes first, then comparisons."""
    verifications: tuple[dict[int, Expr], ...]
    """Per equality class with hashed codes: the equality itself, by the place of the alias compared with."""
    residuals: tuple[tuple[Bits, Expr], ...]
    """Other conditions, with all aliases they read."""

    @property
    def bit(self) -> Bits:
        """Return the set with this alias alone."""
        return 1 << self.place

    @property
    def neighbours(self) -> Bits:
        """Return the aliases that a condition of two ties to this one."""
        bits = 0
        for others in (*(c.others for c in self.conditions), *(n for n, _ in self.residuals if n.bit_count() == 2)):
            bits |= others
        return bits & ~self.bit

    def active(self, done: Bits) -> Bits:
        """Return which conditions can be checked, by their places."""
        found = 0
        for k, condition in enumerate(self.conditions):
            if condition.others & done:
                found |= 1 << k
        return found

    def checks(self, path: tuple[int, ...], done: Bits) -> list[Expr]:
        """Return what is left to verify of results that came along a path, once their codes agree."""
        if not self.verifications and not self.residuals:
            return []
        first = [next((same[p] for p in path if p in same), None) for same in self.verifications]
        wanted = [condition for needs, condition in self.residuals if not needs & ~(done | self.bit)]
        return [*(e for e in first if e is not None), *wanted]


@dataclass(frozen=True)
class Visit:
    """How partial results with certain codes meet a SteM: the arguments of the `probe` kernel."""

    index: KeyIndex
    key: int
    ops: Vector
    mine: Vector
    theirs: Vector
    taken: Vector
    placed: Vector


class Stem:
    """The rows of one alias that are in its window.

    Invariant: every live row taken in so far is in the entries once, in order of arrival, and in every index.
    """

    def __init__(self, spec: StemSpec, sources: Sources) -> None:
        self.spec = spec
        self.sources = sources
        scan = sources.scans[spec.alias]
        keys = [c.held for c in spec.conditions if c.is_equality]
        values = len(spec.leaf.values)
        # The first index has the link every entry has; each further one has a column of its own.
        links = [LINK, *range(ROWS + 1 + values, ROWS + values + len(keys))]
        # Index i finds the rows that satisfy condition i.
        self.indexes = [KeyIndex(key, link) for key, link in zip(keys, links, strict=False)]
        self.state = JoinInputState((spec.alias,), values + max(0, len(keys) - 1), scan.in_order, (scan.spec.line,))
        self._none = KeyIndex(0, UNLINKED)
        self._visits: dict[tuple[Bits, int | None], Visit] = {}

    @property
    def states(self) -> list[JoinInputState]:
        """Return the one state."""
        return [self.state]

    @property
    def index_bytes(self) -> int:
        """Return the memory of all indexes."""
        return sum(i.nbytes for i in self.indexes)

    def insert(self, batch: Matrix, now_us: int, seq: int) -> None:
        """Take in rows; `now_us` is the time of the first that can arrive from now on, `seq` the last number before."""
        state = self.state
        moved = state.reserve(len(batch), now_us, seq, self.sources.evictions, bool(self.indexes))
        if moved is not None and self.indexes:
            self.indexes[0].follow(LEFT_HEAD, moved)
            for index in self.indexes[1:]:
                self._rebuild(index, len(batch))
        start = state.count
        state.count += len(batch)
        self.sources.entries_kept += len(batch)
        state.entries[start : state.count, : batch.shape[1]] = batch
        for index in self.indexes:
            if index.has_room(len(batch)):
                index.add(LEFT_HEAD, state.held, start)
            else:
                self._rebuild(index, 0)

    def _rebuild(self, index: KeyIndex, more: int) -> None:
        """Index all entries anew; a part is left free, so that the next batches fit as well."""
        index.rebuild(self.state.held, self.state.held[:0], max(more, index.taken // 4))

    def visit(self, active: Bits) -> Visit:
        """Return how partial results for which these conditions are active find and check their partners."""
        usable = [i for i in range(len(self.indexes)) if active >> i & 1]
        # Among several, the index with the most codes has the shortest chains.
        chosen = max(usable, key=lambda i: self.indexes[i].taken) if len(usable) > 1 else usable[0] if usable else None
        if (active, chosen) not in self._visits:
            self._visits[active, chosen] = self._visit(active, chosen)
        return self._visits[active, chosen]

    def _visit(self, active: Bits, chosen: int | None) -> Visit:
        conditions = self.spec.conditions
        known = [c for k, c in enumerate(conditions) if active >> k & 1]
        checked = [c for k, c in enumerate(conditions) if active >> k & 1 and k != chosen]
        carried = {c.carried for c in known if c.is_equality}
        adopted = [code for code in self.spec.codes if code.carried not in carried]
        return Visit(
            self._none if chosen is None else self.indexes[chosen],
            0 if chosen is None else conditions[chosen].carried,
            _vector([c.op for c in checked]),
            _vector([c.carried for c in checked]),
            _vector([c.held for c in checked]),
            _vector([code.held for code in adopted]),
            _vector([code.carried for code in adopted]),
        )

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        self.state.renumber(change.alias, change.places, change.base)


def _vector(values: list[int]) -> Vector:
    return np.array(values, np.int64)
