"""SteM (state module): the window rows of one alias, to be met by partial results along any route.

    arriving rows   ──▶ insert ──▶ entries, indexed by the code of each equality class
    partial results ──▶ visit  ──▶ partial results with a row of this alias more

State: the entries and their indexes. Nothing that a join would have found is kept.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from midstream.kernels.arrays import Links, Matrix, Vector
from midstream.kernels.entries import LINK, ROWS
from midstream.kernels.join import EQ
from midstream.kernels.key_index import LEFT_HEAD, clear, follow_moves
from midstream.kernels.stem import chain_column
from midstream.operators.sliding.join_state import JoinInputState
from midstream.operators.source.scan import Leaf
from midstream.operators.source.sources import Renumbering, Sources
from midstream.plan.expr import Expr

Bits = int
"""A set of aliases, by their places in FROM: the bit vector of what is done."""

FULL = 0.65
"""The part of an index's slots that may be taken: memory against longer searches."""
SMALLEST = 256
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

    index: "StemIndex"
    key: int
    ops: Vector
    mine: Vector
    theirs: Vector
    taken: Vector
    placed: Vector


class StemIndex:
    """Where the entries of each code are: a table of codes, the newest entry of each, and a column of links.

    Invariant: every entry is in the chain of its code; at most FULL of the slots are taken.
    """

    def __init__(self, key: int, link: int) -> None:
        self.key = key
        self.link = link
        self.taken = 0
        self._allocate(SMALLEST)

    def _allocate(self, slots: int) -> None:
        self.words: Matrix = np.empty((slots, 2), np.int64)
        self.heads: Links = self.words.view(np.int32)
        clear(self.heads)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "heads"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.heads = self.words.view(np.int32)

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return int(self.words.nbytes)

    def add(self, entries: Matrix, start: int) -> None:
        """Index the entries from `start` on."""
        new = len(entries) - start
        if self.taken + new > len(self.words) * FULL:
            self.rebuild(entries, new)
        else:
            self.taken += chain_column(self.words, self.heads, entries, start, self.key, self.link, new)

    def rebuild(self, entries: Matrix, spare: int = 0) -> None:
        """Index all entries anew, with room for some more codes; forgets codes without entries."""
        slots, self.taken = max(SMALLEST, len(self.words) // 2), -1
        while self.taken < 0:
            # A part is left free, so that the next batches fit as well.
            room = int(slots * FULL) - max(spare, slots // 8)
            if room > 0:
                self._allocate(slots)
                self.taken = chain_column(self.words, self.heads, entries, 0, self.key, self.link, room)
            slots *= 2


@dataclass(frozen=True)
class IndexSize:
    """What the indexes of a SteM hold."""

    nbytes: int


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
        self.indexes = [StemIndex(key, link) for key, link in zip(keys, links, strict=False)]
        self.state = JoinInputState((spec.alias,), values + max(0, len(keys) - 1), scan.in_order, (scan.spec.line,))
        self._none = StemIndex(0, UNLINKED)
        self._visits: dict[tuple[Bits, int | None], Visit] = {}

    @property
    def states(self) -> list[JoinInputState]:
        """Return the one state."""
        return [self.state]

    @property
    def index(self) -> IndexSize:
        """Return the size of all indexes."""
        return IndexSize(sum(i.nbytes for i in self.indexes))

    def insert(self, batch: Matrix, now_us: int, seq: int) -> None:
        """Take in rows; `now_us` is the time of the first that can arrive from now on, `seq` the last number before."""
        state = self.state
        moved = state.reserve(len(batch), now_us, seq, self.sources.evictions, bool(self.indexes))
        if moved is not None and self.indexes:
            follow_moves(self.indexes[0].heads, LEFT_HEAD, moved)
            for index in self.indexes[1:]:
                index.rebuild(state.held)
        start = state.count
        state.count += len(batch)
        state.entries[start : state.count, : batch.shape[1]] = batch
        for index in self.indexes:
            index.add(state.held, start)

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
