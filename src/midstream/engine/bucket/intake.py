"""Intake: the rows of a version in one bucket, from their arrival until they may be forgotten.

packed rows ──▶ late? ──▶ wait ──▶ released in order ──▶ operators
                                        └──▶ durable window rows, as long as a window needs them
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.engine.bucket.durable import DurableRows
from midstream.engine.bucket.held_rows import HeldRows
from midstream.engine.bucket.progress import Timings
from midstream.engine.bucket.state import VersionState
from midstream.engine.bucket.waiting import WaitingRows
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows, in_arrival_order, in_order
from midstream.engine.run.contract import Expiry
from midstream.engine.run.family import family_of
from midstream.model.time import FOREVER, NEVER
from midstream.model.timing import Timing
from midstream.operators.expression.codes import partition_codes
from midstream.plan.plan import Plan
from midstream.plan.window import RangeWindow, RowsWindow, Window

BATCH_SHIFT = 40
"""A live offset is (batch, partition, place): later batches come after earlier ones."""

SLACK = 4096
"""Rows of a window of rows that may be kept, beside twice those that are inside, after others have pushed them out."""
SMALL = 64
"""A chunk of fewer rows takes as much room as one of so many."""


class Intake:
    """The rows of one version of a query in one bucket. State: rows that wait, by alias in FROM order."""

    def __init__(
        self,
        plan: Plan,
        state: VersionState,
        durable: DurableRows | None,
        timings: Timings,
        recorded: bool,
        keeps: bool = True,
    ) -> None:
        """`keeps`: rows that were released are kept here, as long as a window needs them; else the run does."""
        self.sources = plan.query.sources
        self.names = [plan.query.columns_of(s.alias) for s in self.sources]
        self.first_of_stream = list({s.stream.name: k for k, s in reversed(list(enumerate(self.sources)))}.values())
        """The first alias of each stream, by its place in FROM order: each row of a stream counts once."""
        self._positions = {s.position for s in self.sources}
        self._state = state
        self._durable = durable
        other_plans = len(self.sources) > 1 or family_of(plan).chosen_by_cost
        window = durable or (HeldRows() if other_plans else None)
        self._window: DurableRows | HeldRows | None = window if keeps else None
        """The rows a run can be built from: those in the windows, but for those of this micro-batch."""
        self._timings = timings
        self._recorded = recorded
        self._waiting = [WaitingRows(rank, names, durable) for rank, names in enumerate(self.names)]
        self.late: dict[int, Rows] = {}
        """Rows of this micro-batch that are late."""
        self.far: dict[int, Rows] = {}
        """Rows of this micro-batch that are too far ahead."""
        self._released: dict[int, list[Rows]] = {}

    def take_in(self, packed: Packed, version: int, start_us: int | None, before: dict[int, int]) -> None:
        """Take in the rows that may still be in order, beside those that wait; set aside those that are late.

        A row is late when a micro-batch before this one has shown (`before`) a time further ahead than the lateness, or
        when the version went on to a later time without its stream. It is too far ahead when it is after the bound.
        """
        self.late, self.far, self._released = {}, {}, {}
        for rank, source in enumerate(self.sources):
            given = packed.rows.get((version, rank))
            if not given:
                continue
            rows = in_order([part for _, part in sorted(given, key=lambda p: p[0])]).moved(self._shift)
            late_before_us = self._late_before_us(source.position, before)
            first = 0 if start_us is None else int(np.searchsorted(rows.times, start_us))
            tardy = int(np.searchsorted(rows.times, max(late_before_us, self._state.released_us)))
            # A row from before the start was for the versions before: only one that is late is set aside here.
            early = min(first, int(np.searchsorted(rows.times, late_before_us)))
            if early or tardy > first:
                self.late[rank] = in_order([rows.between(0, early), rows.between(first, max(first, tardy))])
            rows = rows.between(max(first, tardy), len(rows))
            bound_us = packed.bound.get(source.position)
            near = len(rows) if bound_us is None else int(np.searchsorted(rows.times, bound_us, side="right"))
            if near < len(rows):
                self.far[rank] = rows.between(near, len(rows))
                rows = rows.between(0, near)
            if len(rows):
                self._waiting[rank].add(rows)

    def _late_before_us(self, position: int, before: dict[int, int]) -> int:
        """Return the time below which rows of a stream are late, by what earlier micro-batches have shown."""
        high = before.get(position)
        return NEVER if high is None else high - self._timings.get(position, Timing()).lateness_us

    def first_anywhere_us(self, low: dict[int, int], before: dict[int, int]) -> int | None:
        """Return the first time of a micro-batch in whatever bucket, late rows aside; `low` is the least per stream."""
        released_us = self._state.released_us
        found = (max(t, self._late_before_us(p, before), released_us) for p, t in low.items() if p in self._positions)
        return min(found, default=None)

    @property
    def first_us(self) -> int | None:
        """Return the time of the first row that waits."""
        return min((us for waiting in self._waiting if (us := waiting.first_us) is not None), default=None)

    def start_at(self, start_us: int) -> None:
        """Forget the rows that wait and are from before a time."""
        for waiting in self._waiting:
            waiting.start_at(start_us)

    def share(self, other: "Intake", start_us: int) -> None:
        """Let the rows that wait elsewhere wait here, too, from a time on."""
        self._wait_as(other)
        self.start_at(start_us)

    def _wait_as(self, other: "Intake") -> None:
        """Let the same rows wait as elsewhere, and no others."""
        for mine, theirs in zip(self._waiting, other._waiting, strict=True):
            mine.replace(theirs.whole())

    def read_all(self) -> None:
        """Read all rows that wait: what is written down of them is about to be forgotten."""
        for waiting in self._waiting:
            waiting.whole()

    def take_over(self, before: "Intake") -> None:
        """Take over the rows that wait, and those set aside."""
        self._wait_as(before)
        self.late, self.far = before.late, before.far

    def release(self, upto_us: int) -> dict[int, Rows]:
        """Release the rows below a time; return them by alias."""
        released = {}
        for rank, waiting in enumerate(self._waiting):
            rows = waiting.release(upto_us)
            if rows is not None:
                released[rank] = rows
                if self._window is not None:
                    self._released.setdefault(rank, []).append(rows)
        self._state.released_us = max(self._state.released_us, upto_us)
        return released

    @property
    def _shift(self) -> int:
        """Return what offsets of this micro-batch are counted from."""
        return 0 if self._recorded else (self._state.batches % (1 << 22)) << BATCH_SHIFT

    def give_back(self) -> dict[int, Rows]:
        """Return the rows that wait by alias, to be taken in again should the version start anew."""
        held = {rank: waiting.whole() for rank, waiting in enumerate(self._waiting)}
        return {rank: rows.moved(-self._shift) for rank, rows in held.items() if rows is not None}

    @property
    def waiting(self) -> int:
        """Return how many rows wait."""
        return sum(map(len, self._waiting))

    def keep(self, expiry: Expiry | None) -> None:
        """Keep the rows that wait, and those that were released as long as a window needs them."""
        for waiting in self._waiting if self._durable is not None or self._window is not None else ():
            waiting.keep(self._state.released_us)
        durable = self._window
        if durable is None:
            return
        for rank, parts in self._released.items():
            released = in_order(parts) if len(parts) > 1 else parts[0]
            durable.add(rank, needed(released, self.sources[rank].window, expiry))
        self._released = {}
        for rank, source in enumerate(self.sources) if expiry is not None else ():
            assert expiry is not None
            window = source.window
            if window is None:
                durable.expire(rank, FOREVER, None)
            elif isinstance(window, RangeWindow):
                durable.expire(rank, None if expiry.now_us is None else expiry.now_us - window.width_us, None)
            else:
                if not window.partition_by:
                    durable.expire(rank, None, window.count, expiry.before_us)
                if window.partition_by or expiry.next_us is not None:
                    self._shrink(durable, rank, window, expiry)

    def held(self, expiry: Expiry | None = None) -> dict[str, Rows]:
        """Return the rows from which a run can be built, by alias, in order; those that are needed no more left out."""
        out = {}
        for rank, (source, names) in enumerate(zip(self.sources, self.names, strict=True)):
            before = [] if self._window is None else self._window.window_rows(rank, names)
            parts = [*before, *self._released.get(rank, [])]
            if parts:
                out[source.alias] = inside(in_order(parts), source.window, expiry)
        return out

    @property
    def nbytes(self) -> int:
        """Return the memory held by rows that have been released."""
        return self._window.nbytes if self._window is not None else 0

    def _shrink(self, durable: DurableRows | HeldRows, rank: int, window: RowsWindow, expiry: Expiry) -> None:
        """Rewrite the rows of a window of rows once as many have come as were there, and some more."""
        chunks = durable.chunks(rank)
        if len(chunks) < 2 or sum(max(c.rows, SMALL) for c in chunks[1:]) < chunks[0].rows + SLACK:
            return
        rows = in_order(durable.window_rows(rank, self.names[rank]))
        later = rows.times >= expiry.before_us
        # Rows that do not push others out are all inside, unless they push out each other.
        inside = later if expiry.next_us is None else last_of_each(rows, window, later)
        durable.replace(rank, rows.where(inside | last_of_each(rows, window, ~later)))

    def named_table(self, rank: int, rows: Rows) -> pa.Table:
        """Return rows of an alias that are set aside, with their stream's name and their own column names."""
        named = rows.to_table().rename_columns(["_time", "_offset", *self.names[rank]])
        return named.append_column("_stream", pa.repeat(self.sources[rank].stream.name, len(rows)))


def inside(rows: Rows, window: Window | None, expiry: Expiry | None) -> Rows:
    """Return the rows that a window holds, or held when others that are needed came."""
    if expiry is None or window is None:
        return rows
    if isinstance(window, RowsWindow):
        later = rows.times >= expiry.before_us
        return rows.where(later | last_of_each(rows, window, ~later))
    return rows if expiry.now_us is None else rows.since(max(expiry.now_us - window.width_us, NEVER))


def needed(rows: Rows, window: Window | None, expiry: Expiry | None) -> Rows:
    """Return the rows that a window held when it was last looked at, and those it can hold the next time."""
    if expiry is None or expiry.next_us is None or window is None:
        return rows
    if isinstance(window, RowsWindow):
        later = rows.times >= expiry.before_us
        return rows.where(last_of_each(rows, window, ~later) | last_of_each(rows, window, later))
    # Rows are in order of time: what either look finds lies together.
    looks_us = (expiry.before_us - window.width_us, expiry.before_us, expiry.next_us - window.width_us)
    first, cut, then = (int(np.searchsorted(rows.times, max(us, NEVER))) for us in looks_us)
    if then <= cut:
        return rows.between(first, len(rows))
    return in_arrival_order([rows.between(first, cut), rows.between(then, len(rows))])


def last_of_each(rows: Rows, window: RowsWindow, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Tell which of chosen rows, in order, a window of rows holds after the last of them."""
    places = np.flatnonzero(chosen)
    key = np.zeros(len(places), np.int64)
    if window.partition_by:
        columns = [rows.columns[c.name].take(pa.array(places)) for c in window.partition_by]
        _, key = np.unique(partition_codes(columns), axis=0, return_inverse=True)
    order = np.argsort(key, kind="stable")
    ends = np.cumsum(np.bincount(key, minlength=1))
    from_end = np.empty(len(places), np.int64)
    from_end[order] = ends[key[order]] - np.arange(len(places))
    out = np.zeros(len(rows), np.bool_)
    out[places] = from_end <= window.count
    return out
