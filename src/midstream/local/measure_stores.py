"""Stores for the cache of a DICO operator: a FIFO list, a hash map, and the bag that the engine uses, step by step.

    deltas ──▶ each store in turn: put in what comes, take out what goes, drop what is over ──▶ steps per hop

A step is one tuple put somewhere, looked at or hashed. The FIFO list appends at one end and drops at the other, and is
searched from the front for a tuple that is taken back. The hash map finds it at once, and is looked through whole for
those whose time is over. The bag keeps the order as long as nothing was taken out, and hashes when somebody looks.
"""

from bisect import bisect_left
from collections.abc import Iterator
from math import ceil, log2

import numpy as np

from midstream.kernels.arrays import Vector
from midstream.operators.hopping.bag import Bag
from midstream.operators.hopping.tuples import Tuples

FIFO, HASH, BAG = "FIFO list", "hash map", "the engine's bag"
Delta = tuple[int, Vector, Vector]
"""A hop, the tuples that come (by number; each is over a window later) and those that are taken back."""


def deltas(window: int, hop: int, hops: int, taken_back: float, seed: int) -> Iterator[Delta]:
    """Draw what comes and goes at hops: a part of the tuples is taken back before its time, at any age."""
    rng = np.random.default_rng(seed)
    alive = np.empty(0, np.int64)
    for number in range(hops):
        came = np.arange(number * hop, (number + 1) * hop)
        alive = np.concatenate([alive[alive >= (number + 1) * hop - window], came])
        gone = rng.choice(alive[: -hop or None], min(round(taken_back * hop), max(len(alive) - hop, 0)), replace=False)
        alive = np.setdiff1d(alive, gone)
        yield number, came, gone


def fifo_steps(window: int, hop: int, found: list[Delta]) -> list[int]:
    """Return the steps of a FIFO list at each hop."""
    held: list[int] = []
    out = []
    for number, came, gone in found:
        over = bisect_left(held, (number + 1) * hop - window)
        del held[:over]
        held += came.tolist()
        steps = over + len(came)
        for tuple_ in gone.tolist():
            place = bisect_left(held, tuple_)
            steps += place + 1
            del held[place]
        out.append(steps)
    return out


def hash_steps(window: int, hop: int, found: list[Delta]) -> list[int]:
    """Return the steps of a hash map at each hop."""
    held: set[int] = set()
    out = []
    for number, came, gone in found:
        steps = len(held)
        held = {t for t in held if t >= (number + 1) * hop - window}
        held.update(came.tolist())
        held.difference_update(gone.tolist())
        out.append(steps + 2 * len(came) + 2 * len(gone))
    return out


def bag_steps(window: int, hop: int, found: list[Delta]) -> list[int]:
    """Return the steps of the engine's bag at each hop: what it hashes, links and looks at, as it does so."""
    bag = Bag(1, np.zeros(1, np.int64))
    out = []
    for number, came, gone in found:
        count, ordered, linked = bag.count, bag.ordered, bag.linked
        delta = Tuples(
            np.concatenate([came, gone]).reshape(-1, 1),
            np.concatenate([came, gone]) + window,
            np.concatenate([np.ones(len(came), np.int64), np.full(len(gone), -1, np.int64)]),
        )
        bag.apply(delta, now_us=(number + 1) * hop)
        steps = len(came) + (ceil(log2(count + 1)) if ordered else count)
        if bag.count != count + len(came):  # it was tidied
            steps, linked = steps + count, 0
        if len(gone):
            steps += 2 * (bag.linked - linked) + 2 * len(gone)
        out.append(steps)
    return out


def store_steps(window: int, hop: int, hops: int, taken_back: float, seed: int) -> dict[str, float]:
    """Return the mean steps per hop of each store, once the window is full."""
    found = list(deltas(window, hop, hops, taken_back, seed))
    full = window // hop
    by_store = {FIFO: fifo_steps, HASH: hash_steps, BAG: bag_steps}
    return {name: float(np.mean(steps(window, hop, found)[full:])) for name, steps in by_store.items()}
