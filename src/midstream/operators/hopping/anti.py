"""Anti-join: the left tuples that have no partner on the right.

    deltas:    left tuples are held with the number of their partners; right tuples that come, go and end change it
    complete:  the right side is hashed, left tuples without a partner leave; nothing is held

What is given ends with the left tuple; it is taken back before that when a partner comes, and comes again when the last
partner goes.
"""

from collections.abc import Iterator

import numpy as np

from midstream.kernels.arrays import Mask, Vector
from midstream.kernels.bag import HASH, LINKS, change_matches, hash_rows, link, mark_matched, net_matches
from midstream.operators.hopping.bag import Bag, side_by_side
from midstream.operators.hopping.join import JoinSpec
from midstream.operators.hopping.tuples import Tuples, nothing, together, valid


class AntiTuples:
    """An anti-join; what leaves are the left columns. State: both sides, when it reads deltas."""

    def __init__(self, spec: JoinSpec, by_tuple: bool = False) -> None:
        self.spec = spec
        self.by_tuple = by_tuple
        self.tested = 0
        """Pairs that were compared."""
        self.flips = 0
        """How often a tuple came into the answer or left it before its time."""
        self.left = Bag(spec.widths[0], spec.keys[0], counted=True)
        self.right = Bag(spec.widths[1], spec.keys[1])
        self.bags = (self.left, self.right)

    def delta(self, now_us: int, left: Tuples, right: Tuples) -> Tuples:
        """Return the left tuples that come into the answer and leave it."""
        ended = (
            self.right.ending(now_us).signed(-1) if now_us > self.right.now_us else nothing(right.rows.shape[1], True)
        )
        self.left.expire(now_us)
        self.right.expire(now_us)
        left, right = valid(left, now_us), valid(right, now_us)
        out = [nothing(self.spec.widths[0], True)]
        of_right = hash_rows(right.rows, self.spec.keys[1])
        out.append(self._rematch(ended, now_us))
        out.append(self._rematch(right, now_us, of_right))
        self.right.apply(right, of_right)
        out += self._left(left)
        return together(out)

    def _rematch(self, changed: Tuples, now_us: int, hashes: Vector | None = None) -> Tuples:
        """Follow partners that come and go; return the left tuples that it brings into the answer or out of it."""
        bag = self.left
        assert changed.signs is not None, "partners come and go by deltas"
        crossed = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for probes, places in self._pairs(changed, bag, self.spec.keys[1], hashes, left_held=True):
            crossed.append(change_matches(bag.numbers, bag.until, now_us, places, changed.signs.take(probes)))
        chosen, signs = (np.concatenate([c[k] for c in crossed]) for k in (0, 1))
        if not self.by_tuple:
            chosen, signs = net_matches(chosen, signs, bag.count)
        self.flips += len(chosen)
        return Tuples(bag.rows.take(chosen, axis=0), bag.until.take(chosen), signs)

    def _left(self, left: Tuples) -> list[Tuples]:
        if not len(left):
            return []
        assert left.signs is not None, "left tuples come and go by deltas"
        coming = left.where(left.signs > 0)
        hashes = hash_rows(coming.rows, self.spec.keys[0])
        partners = np.zeros(len(coming), np.int64)
        for probes, _ in self._pairs(coming, self.right, self.spec.keys[0], hashes, left_held=False):
            partners += np.bincount(probes, minlength=len(coming))
        self.left.add(coming, partners, hashes)
        going = left.where(left.signs < 0)
        found = self.left.remove(going)
        given = (found >= 0) & (self.left.numbers[found] == 0) if len(found) else found >= 0
        return [coming.where(partners == 0), going.where(given)]

    def complete(self, now_us: int, left: Tuples, right: Tuples) -> Tuples:
        """Return the left tuples without a partner."""
        if not len(right) or not len(left):
            return left
        if self.spec.condition:
            held = Bag(self.spec.widths[1], self.spec.keys[1])
            held.add(right)
            matched = np.zeros(len(left), np.bool_)
            for probes, _ in self._pairs(left, held, self.spec.keys[0], None, left_held=False, done=matched):
                matched[probes] = True
        else:
            a, b = self.spec.keys
            chains = np.empty((len(right), LINKS), np.int64)
            chains[:, HASH] = hash_rows(right.rows, b)
            heads = np.full((1 << (2 * len(right)).bit_length(), 1), -1, np.int32)
            link(heads, chains, right.until, 0, len(right))
            matched = mark_matched(heads, chains, right.rows, b, left.rows, hash_rows(left.rows, a), a)
            self.tested += len(left)
        return left.where(~matched)

    def _pairs(
        self, probes: Tuples, held: Bag, keys: Vector, hashes: Vector | None, left_held: bool, done: Mask | None = None
    ) -> Iterator[tuple[Vector, Vector]]:
        """Yield pairs of probes and places in a bag for which every condition is true, but of probes that are done."""
        spec = self.spec
        for i, j, looked in held.pairs(probes, keys, hashes):
            self.tested += looked
            if done is not None:
                i, j = i[~done[i]], j[~done[i]]
            if spec.condition and len(i):
                inside = Tuples(held.rows, held.until)
                if left_held:
                    both = side_by_side([(inside, j, spec.leaving[0], probes, i, spec.leaving[1])])
                else:
                    both = side_by_side([(probes, i, spec.leaving[0], inside, j, spec.leaving[1])])
                passed = spec.condition.holds(both.rows)
                i, j = i[passed], j[passed]
            if len(i):
                yield i, j
