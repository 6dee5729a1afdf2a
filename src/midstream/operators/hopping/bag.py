"""A bag of tuples that are found by the hash of some of their columns: what a stateful operator holds of an input.

State: the tuples that are valid, and some whose time is over until the bag is tidied. Tuples are hashed and linked into
chains when somebody first looks for one; who has their hashes already gives them along.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.bag import (
    DEAD,
    HASH,
    LINKS,
    concatenate,
    count_ended,
    find_equal,
    find_pairs,
    hash_rows,
    keep_valid,
    link,
)
from midstream.operators.hopping.tuples import Tuples
from midstream.operators.source.memory import check_room
from midstream.operators.source.tape import grown

NEVER = -(2**62)
MOST_PAIRS = 1 << 18
"""Pairs that are looked at in one go."""
TOGETHER = 1024
"""Tuples that look for their partners at a time."""


class Bag:
    """Tuples by key. `counted` keeps a number beside each tuple."""

    def __init__(self, width: int, places: Vector, counted: bool = False) -> None:
        self.places = places
        self.count = 0
        self.now_us = NEVER
        self._rows = np.empty((16, width), np.int64)
        self._until = np.empty(16, np.int64)
        self._chains = np.empty((16, LINKS), np.int64)
        self._heads = np.full((32, 1), -1, np.int32)
        self._hashed = self._linked = 0
        self._counted = counted
        self._numbers = np.empty(16 if counted else 0, np.int64)
        self._dead = self._first = 0
        self._ordered = True
        """Tuples end in the order they are held, and none was taken out."""

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        parts = (self._rows, self._until, self._chains, self._heads, self._numbers)
        return sum(p.nbytes for p in parts)

    @property
    def rows(self) -> Matrix:
        """Return the rows held, also those whose time is over."""
        return self._rows[: self.count]

    @property
    def until(self) -> Vector:
        """Return the end of each row held."""
        return self._until[: self.count]

    @property
    def numbers(self) -> Vector:
        """Return the number beside each row held."""
        return self._numbers[: self.count]

    @property
    def ordered(self) -> bool:
        """Tell whether tuples end in the order they are held, so that those that are over need not be looked for."""
        return self._ordered

    @property
    def linked(self) -> int:
        """Return how many tuples can be found by their hash."""
        return self._linked

    @property
    def tuples(self) -> int:
        """Return how many valid tuples there are."""
        return self.count - self._dead

    def expire(self, now_us: int) -> None:
        """Drop the tuples whose time is over, all at once when they are many."""
        if now_us <= self.now_us:
            return
        self.now_us = now_us
        if self._ordered:
            self._dead = self._first = int(np.searchsorted(self.until, now_us))
        else:
            self._dead, self._first = count_ended(self._until, self.count, now_us)
        if self._dead * 2 > self.count:
            self.tidy()

    def ending(self, now_us: int) -> Tuples:
        """Return the tuples that have been valid and are not at a time; `expire` comes after."""
        over = (self.until < now_us) & (self.until >= self.now_us)
        return Tuples(self.rows, self.until).where(over)

    def tidy(self) -> None:
        """Hold nothing but valid tuples."""
        if not self._dead:
            return
        hashed = self._hashed == self.count
        self.count = int(keep_valid(self._rows, self._until, self._chains, self._numbers, self.count, self.now_us))
        self._dead = self._first = self._linked = 0
        self._hashed = self.count if hashed else 0
        self._heads.fill(-1)

    def all(self) -> Tuples:
        """Return every valid tuple."""
        self.tidy()
        return Tuples(self.rows, self.until)

    def hold(self, tuples: Tuples, numbers: Vector) -> None:
        """Hold these tuples and no others."""
        self.count = self._dead = self._first = self._hashed = self._linked = 0
        self._heads.fill(-1)
        self.add(tuples, numbers)

    def add(self, tuples: Tuples, numbers: Vector | None = None, hashes: Vector | None = None) -> None:
        """Put tuples in."""
        n = len(tuples)
        if not n:
            return
        self._make_room(n)
        last = self._until[self.count - 1] if self.count else NEVER
        until = tuples.until
        self._ordered = (self._ordered or not self.count) and bool(until[0] >= last and (until[1:] >= until[:-1]).all())
        inside = slice(self.count, self.count + n)
        self._rows[inside] = tuples.rows
        self._until[inside] = until
        if hashes is not None and self._hashed == self.count:
            self._chains[inside, HASH] = hashes
            self._hashed += n
        if self._counted:
            self._numbers[inside] = 0 if numbers is None else numbers
        self.count += n

    def remove(self, tuples: Tuples) -> Vector:
        """Take tuples out; return where each was, -1: it was not there. Its row can be read until the bag is tidied."""
        if not len(tuples):
            return np.empty(0, np.int64)
        self._link()
        hashes = hash_rows(tuples.rows, self.places)
        found = find_equal(self._heads, self._chains, self._rows, tuples.rows, tuples.until, hashes)
        removed = found[found >= 0]
        self._until[removed] = DEAD
        self._dead += len(removed)
        self._ordered &= not len(removed)
        return found

    def apply(self, delta: Tuples, hashes: Vector | None = None, now_us: int = NEVER) -> None:
        """Put in what comes and take out what goes, at a time if it is given."""
        self.expire(now_us)
        assert delta.signs is not None, "a bag is kept up to date by deltas"
        if not len(delta):
            return
        coming = delta.signs > 0
        if coming.all():
            self.add(delta, hashes=hashes)
            return
        self.add(delta.where(coming))
        gone = delta.where(~coming)
        self.remove(gone.where(gone.until >= self.now_us))

    def pairs(
        self, probes: Tuples, places: Vector, hashes: Vector | None = None
    ) -> Iterator[tuple[Vector, Vector, int]]:
        """Yield pairs of (probe, place in the bag) with equal keys, in pieces, and how many tuples were looked at."""
        if not len(probes) or not self.count:
            return
        self._link()
        if hashes is None:
            hashes = hash_rows(probes.rows, places)
        room = min(MOST_PAIRS, 2 * len(probes) + TOGETHER)
        following = np.empty((min(TOGETHER, len(probes)), 2), np.int64)
        start = count = 0
        while count or start < len(probes):
            left, right = np.empty(room, np.int64), np.empty(room, np.int64)
            n, start, count, looked = find_pairs(
                self._heads, self._chains, self._rows, self.places, self._first, self.now_us,
                probes.rows, hashes, places, left, right, following, start, count,
            )  # fmt: skip
            room = MOST_PAIRS
            yield left[:n], right[:n], looked

    def _link(self) -> None:
        if self._hashed < self.count:
            new = slice(self._hashed, self.count)
            self._chains[new, HASH] = hash_rows(self._rows[new], self.places)
            self._hashed = self.count
        if self._linked < self.count:
            if len(self._heads) < 2 * self.count:
                self._heads = np.full((1 << (2 * self.count - 1).bit_length(), 1), -1, np.int32)
                self._linked = 0
            link(self._heads, self._chains, self._until, self._linked, self.count)
            self._linked = self.count

    def _make_room(self, more: int) -> None:
        if self.count + more <= len(self._until):
            return
        size = max(self.count + more, 3 * len(self._until) // 2)
        check_room(8 * size * (self._rows.shape[1] + 1 + LINKS), "what an operator holds of its input")
        self._rows = grown(self._rows, self.count, size)
        self._until = grown(self._until, self.count, size)
        self._chains = grown(self._chains, self.count, size)
        if self._counted:
            self._numbers = grown(self._numbers, self.count, size)


Pairs = tuple[Tuples, Vector, Vector, Tuples, Vector, Vector]
"""Tuples, which of them, and which of their columns; and of those beside them."""


def side_by_side(parts: Sequence[Pairs]) -> Tuples:
    """Return pairs of tuples as tuples of chosen columns of both, with no signs."""
    a_places, b_places = parts[0][2], parts[0][5]
    total = sum(len(part[1]) for part in parts)
    rows, until = np.empty((total, len(a_places) + len(b_places)), np.int64), np.empty(total, np.int64)
    at = 0
    for a, i, a_places, b, j, b_places in parts:
        concatenate(rows, until, at, a.rows, a.until, i, a_places, b.rows, b.until, j, b_places)
        at += len(i)
    return Tuples(rows, until)
