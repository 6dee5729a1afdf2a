"""A node: one operator in its mode. It reads deltas or complete relations, converts if it must, and keeps account.

    inputs ──▶ the operator, by deltas or complete ──▶ converted, if it gives the other ──▶ the node above

At a hop every node is stepped once with `last`; before that, when somebody works by tuple, also with every micro-batch.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

import numpy as np

from midstream.operators.hopping.bag import Bag
from midstream.operators.hopping.convert import Compare, own
from midstream.operators.hopping.rows import ByRow, Layout, ProjectRows
from midstream.operators.hopping.tuples import Tuples, nothing, together
from midstream.operators.hopping.window import HopWindow


class Core(Protocol):
    """What an operator computes; those with state keep it from delta to delta.

    One that `gathers` is given its input as an iterator over pieces. One that can give its output in pieces has a
    method `in_pieces` with the inputs of `delta` or `complete`.
    """

    tested: int
    """Tuples, pairs or values that were looked at."""

    @property
    def delta(self) -> Callable[..., Tuples]:
        """Return a function from the time and what comes and goes below to what comes and goes here."""

    @property
    def complete(self) -> Callable[..., Tuples]:
        """Return a function from the time and the complete inputs to the relation."""


class Input(Protocol):
    """What a node can read."""

    width: int

    def step(self, now_us: int, last: bool) -> Tuples:
        """Return a delta; at the hop that, or the complete relation."""

    def pieces(self, now_us: int, last: bool) -> Iterator[Tuples]:
        """Yield the same in pieces, as they are found; to be read to the end."""

    def total_s(self) -> float:
        """Return the time spent here and below."""


RECENT = 8
"""Hops of which it is known what they brought."""


@dataclass(frozen=True)
class OperatorStatistics:
    """What a node has lately given, per hop; None where its mode does not show it."""

    hops: int
    """Over how many hops."""
    complete: float | None
    """The size of its relation."""
    kept: float | None
    """What has come and was not taken back: the size of its relation if no tuple ends by itself."""
    came: float | None
    went: float | None
    ended: float | None


@dataclass
class Account:
    """What a node has done since it was built."""

    came: int = 0
    """Tuples that deltas have brought."""
    went: int = 0
    """Tuples that deltas have taken back before their time."""
    complete: int = 0
    """The size of its last complete relation, 0 when it gives deltas."""
    spent_s: float = 0.0
    """Time spent in this operator alone."""
    kept: int = 0
    """Tuples that deltas have brought and not taken back, those before it was built included."""
    recent: deque[tuple[int | None, int, int]] = field(default_factory=lambda: deque(maxlen=RECENT))
    """Of the last hops: the size of its relation, and what deltas have brought and taken back."""
    _closed: tuple[int, int] = (0, 0)
    """What deltas had brought and taken back at the last hop."""

    def count(self, delta: Tuples) -> None:
        """Count what a delta brings and takes back."""
        assert delta.signs is not None, "a delta is counted"
        came = int((delta.signs > 0).sum())
        self.came += came
        self.went += len(delta) - came
        self.kept += 2 * came - len(delta)

    def close_hop(self, size: int | None) -> None:
        """End a hop, at which the relation has a size, if it is known."""
        self.recent.append((size, self.came - self._closed[0], self.went - self._closed[1]))
        self._closed = self.came, self.went

    def lately(self, mode: str) -> OperatorStatistics | None:
        """Return what a node in a mode has given at the last hops, or None when there was none."""
        if not self.recent:
            return None
        hops = len(self.recent)
        first, last = self.recent[0][0], self.recent[-1][0]
        size = None if last is None else float(last)
        if mode == "CICO":
            return OperatorStatistics(hops, size, None, None, None, None)
        came, went = (sum(hop[k] or 0 for hop in self.recent) / hops for k in (1, 2))
        ended = None
        if first is not None and last is not None and hops > 1:
            ended = max(0.0, came - went - (last - first) / (hops - 1))
        return OperatorStatistics(hops, size, float(self.kept) if mode[0] == "D" else None, came, went, ended)


class Leaf:
    """A window as an input: gives deltas or the complete window."""

    def __init__(self, window: HopWindow, layout: Layout, delta: bool) -> None:
        self.window = window
        self.layout = layout
        self.width = len(layout)
        self._delta = delta
        self.account = Account()

    def step(self, now_us: int, last: bool) -> Tuples:
        """Return what the window at a time gives."""
        started = time.perf_counter()
        if self._delta:
            out = self.window.delta(now_us)
            if not last:  # it may wait for the hop, while more rows come
                out = own(out)
            self.account.came += len(out)
        elif last:
            out = self.window.complete(now_us)
            self.account.complete = len(out)
        else:
            return nothing(self.width, False)
        self.account.spent_s += time.perf_counter() - started
        return out

    def pieces(self, now_us: int, last: bool) -> Iterator[Tuples]:
        """Yield what the window gives: in one piece."""
        yield self.step(now_us, last)

    def total_s(self) -> float:
        """Return the time spent here."""
        return self.account.spent_s


class Shaped:
    """An input with its columns chosen or computed for the node above. No state, and no operator of the plan."""

    def __init__(self, below: Input, project: ProjectRows, width: int) -> None:
        self.below = below
        self.project = project
        self.width = width

    def step(self, now_us: int, last: bool) -> Tuples:
        """Return what comes from below in the wanted columns."""
        return self.project.complete(now_us, self.below.step(now_us, last))

    def pieces(self, now_us: int, last: bool) -> Iterator[Tuples]:
        """Yield the same in the pieces that come from below."""
        for piece in self.below.pieces(now_us, last):
            yield self.project.complete(now_us, piece)

    def total_s(self) -> float:
        """Return the time spent below."""
        return self.below.total_s()


class Node:
    """An operator of the plan in its mode."""

    def __init__(self, core: Core, mode: str, by_tuple: bool, below: Sequence[Input], layout: Layout) -> None:
        self.core = core
        self.mode = mode
        self.by_tuple = by_tuple
        self.below = tuple(below)
        self.layout = layout
        self.width = len(layout)
        self.account = Account()
        self._waiting: list[list[Tuples]] = [[] for _ in below]
        self.cache = Bag(self.width, np.arange(self.width)) if mode == "DICO" else None
        """The relation that deltas add up to."""
        self.compare = Compare(self.width) if mode == "CIDO" else None

    @property
    def reads_delta(self) -> bool:
        """Tell whether the inputs are deltas."""
        return self.mode[0] == "D"

    @property
    def gives_delta(self) -> bool:
        """Tell whether the output is a delta."""
        return self.mode[2] == "D"

    @property
    def gathers(self) -> bool:
        """Tell whether the operator takes its input in pieces, and holds less than all of them."""
        return getattr(self.core, "gathers", False)

    def step(self, now_us: int, last: bool) -> Tuples:
        """Return what there is to give: a delta; or the complete relation, at the hop."""
        given: list[Any] = [b.pieces(now_us, last) if self.gathers else b.step(now_us, last) for b in self.below]
        started, below_s = time.perf_counter(), self._below_s()
        delta: Tuples | None = None
        if self._waits(last):
            for waiting, part in zip(self._waiting, given, strict=True):
                waiting += part if self.gathers else [part]
            out = nothing(self.width, self.gives_delta)
        elif self.reads_delta:
            out, delta = self._from_delta(now_us, given, last)
        else:
            out = self._from_complete(now_us, given, last)
            delta = out if self.gives_delta else None
        self.account.spent_s += time.perf_counter() - started - (self._below_s() - below_s)
        if delta is not None:
            self.account.count(delta)
        if last:
            self._close_hop(self._size(out), len(out))
        return out

    def pieces(self, now_us: int, last: bool) -> Iterator[Tuples]:
        """Yield what `step` returns: pairs of a join as they are found, what is made of each of them, bags by value."""
        held = self.cache is not None or self.compare is not None or any(self._waiting)
        if not hasattr(self.core, "in_pieces") or held or self._waits(last):
            yield self.step(now_us, last)
            return
        size = 0
        for given in self._given(now_us, last):
            found = self.core.in_pieces(now_us, *given)
            while True:
                started, below_s = time.perf_counter(), self._below_s()
                piece = next(found, None)
                self.account.spent_s += time.perf_counter() - started - (self._below_s() - below_s)
                if piece is None:
                    break
                if self.gives_delta:
                    self.account.count(piece)
                size += len(piece)
                yield piece
        if last:
            self._close_hop(None if self.gives_delta else size, size)

    def _given(self, now_us: int, last: bool) -> Iterator[tuple[Any, ...]]:
        """Yield the inputs: in pieces, one after the other, if they are read row by row or gathered; others whole."""
        if isinstance(self.core, ByRow):
            yield from ((piece,) for below in self.below for piece in below.pieces(now_us, last))
        elif self.gathers:
            yield tuple(b.pieces(now_us, last) for b in self.below)
        else:
            yield tuple(b.step(now_us, last) for b in self.below)

    def _waits(self, last: bool) -> bool:
        """Tell whether deltas that come now wait for the hop."""
        return self.reads_delta and not (last or self.by_tuple)

    def total_s(self) -> float:
        """Return the time spent here and below."""
        return self.account.spent_s + self._below_s()

    def _below_s(self) -> float:
        return sum(b.total_s() for b in self.below)

    def _close_hop(self, size: int | None, given: int) -> None:
        self.account.complete = 0 if self.gives_delta else given
        self.account.close_hop(size)

    def _size(self, out: Tuples) -> int | None:
        """Return the size of the relation at a hop, if what is given or held shows it."""
        if not self.gives_delta:
            return len(out)
        return len(self.compare.last) if self.compare is not None else None

    def _from_delta(self, now_us: int, given: list[Any], last: bool) -> tuple[Tuples, Tuples]:
        """Return what there is to give, and the delta it comes from."""
        waiting, self._waiting = self._waiting, [[] for _ in self.below]
        if self.gathers:
            given = [chain(w, pieces) for w, pieces in zip(waiting, given, strict=True)]
        elif any(waiting):
            given = [together([*w, part]) for w, part in zip(waiting, given, strict=True)]
        out = self.core.delta(now_us, *given)
        if self.cache is None:
            return out, out
        self.cache.apply(out, now_us=now_us)
        return (self.cache.all() if last else nothing(self.width, False)), out

    def _from_complete(self, now_us: int, given: list[Any], last: bool) -> Tuples:
        if not last:
            for pieces in given if self.gathers else ():
                deque(pieces, maxlen=0)
            return nothing(self.width, self.gives_delta)
        out = self.core.complete(now_us, *given)
        return out if self.compare is None else self.compare.delta(now_us, out)

    def load(self, now_us: int, inputs: Sequence[Any], output: Tuples | None, keep_core: bool) -> None:
        """Take up the state this node would have, had it run until a hop; `keep_core`: the operator itself has it."""
        if self.reads_delta and not keep_core:
            given = [(piece.signed() for piece in i) if self.gathers else i.signed() for i in inputs]
            if hasattr(self.core, "in_pieces"):
                changes = self.core.in_pieces(now_us, *given)
            else:
                changes = [self.core.delta(now_us, *given)]
            self.account.kept = sum(int(c.signs.sum()) for c in changes if c.signs is not None)
            if hasattr(self.core, "flips"):
                self.core.flips = 0  # What comes into a state that is loaded came into the answer long before.
        if self.cache is not None and output is not None:
            self.cache.apply(output.signed(), now_us=now_us)
        if self.compare is not None and output is not None:
            self.compare.delta(now_us, output)

    @property
    def tuples(self) -> int:
        """Return how many tuples are held."""
        held = sum(b.tuples for b in self._bags()) + getattr(self.core, "tuples", 0)
        return held + (len(self.compare.last) if self.compare is not None else 0)

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        held = sum(b.nbytes for b in self._bags()) + getattr(self.core, "nbytes", 0)
        return held + (self.compare.last.rows.nbytes if self.compare is not None else 0)

    @property
    def flips(self) -> int:
        """Return how often a value or tuple came into the answer or left it before its time."""
        return int(getattr(self.core, "flips", 0))

    def _bags(self) -> list[Bag]:
        held = list(getattr(self.core, "bags", ())) if self.reads_delta else []
        return [*held, *([self.cache] if self.cache is not None else [])]
