"""Difference chain: the values in the outer's window and in none of the others', as signed changes.

    outer rows ──▶ probe b, c, d from the bottom up ──▶ add to (a b), ((a b) c), ... until one holds the value
    b's rows   ──▶ probe (a b) ──▶ remove there and further up
                                   top of the chain: the answer ──▶ +1 / -1

State: the rows in each window, by value how many of them there are, and by level of the chain whether the value is in
its difference state. After a change of order, a level that the old order did not have starts empty and incomplete: it
learns of a value when a row with that value comes or goes, and until then passes probes on, up to a level that knows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.difference import (
    ALIAS,
    COLUMN,
    COUNTS,
    END,
    ENTRY_SIZE,
    FIRST,
    IN_PUSHED,
    IN_ROW,
    IN_SEQ,
    IN_SIZE,
    IN_TIME,
    IN_VALUE,
    KNOWN,
    LEVEL_SIZE,
    LIMIT,
    LIVE,
    MEMBER,
    NEWEST,
    OUT_SIZE,
    PENDING,
    ROW,
    SIZE,
    START,
    TESTED,
    TOTALS_SIZE,
    VALUE,
    WINDOW_SIZE,
    apply_rows,
    chain_newest,
)
from midstream.model.errors import PlanError, StateError
from midstream.operators.source.tape import grown
from midstream.operators.source.value_table import ValueTable
from midstream.plan.window import RangeWindow, Window

Level = tuple[str, ...]
"""A difference state, by its aliases: the outer, then what is subtracted, from the bottom up."""

BITS = 62
"""Levels, of this order and earlier ones, that the bits of a value can tell apart."""
ROOM = 1.5
"""Lines held per line wanted when a matrix is laid out anew: memory against moving."""
SMALLEST = 64


@dataclass(frozen=True)
class CodedRows:
    """Rows of one alias that arrive together, in order of their sequence numbers.

    Row numbers increase; a row number of -1 is a row the query does not want, which still lets time pass and pushes
    another one out.
    """

    times: Vector
    seqs: Vector
    rows: Vector
    codes: Matrix
    """Two codes per row that name its value."""
    pushed: Vector | None = None
    """The row each one pushes out of a counted window, or -1."""


@dataclass(frozen=True)
class Reordering:
    """What a change of order has found: levels the old order had too, and those that are incomplete now."""

    matched: tuple[Level, ...]
    incomplete: tuple[Level, ...]


class DifferenceChain:
    """A left-deep chain of differences over sliding windows, whose order can change.

    Invariant: a complete level holds exactly the outer's values that none of its subtracted windows holds; an
    incomplete one does so for the values it knows. The top is always complete.
    """

    def __init__(self, windows: Mapping[str, Window | None], order: Sequence[str]) -> None:
        for alias, window in windows.items():
            if window is None:
                raise PlanError(f"'{alias}' needs a window: a difference compares what is in windows")
        self.aliases = tuple(windows)
        """The aliases by their numbers."""
        self.order = tuple(order)
        """The chain from the bottom up, the outer first."""
        if len(self.order) < 2 or len(self.order) > BITS or sorted(self.order) != sorted(self.aliases):
            raise PlanError(f"({' '.join(order)}) is no order of a difference of {', '.join(self.aliases)}")
        self._widths = np.array([w.width_us if isinstance(w, RangeWindow) else -1 for w in windows.values()], np.int64)
        self._levels = np.zeros((len(self.order), LEVEL_SIZE), np.int64)
        self._levels[1:, COLUMN] = np.arange(len(self.order) - 1)
        self._next_column = len(self.order) - 1
        self._number_levels()
        self._values = np.zeros((SMALLEST, COUNTS + len(self.aliases)), np.int64)
        self._names = ValueTable(2)
        """The line of each value, by its two codes."""
        self._entries = np.zeros((0, ENTRY_SIZE), np.int64)
        self._windows = np.zeros((len(self.aliases), WINDOW_SIZE), np.int64)
        self._totals = np.zeros(TOTALS_SIZE, np.int64)

    def _number_levels(self) -> None:
        numbers = [self.aliases.index(alias) for alias in self.order]
        self._levels[:, ALIAS] = numbers
        self._places = np.argsort(numbers)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Return the difference states from the bottom up."""
        return tuple(self.order[: k + 1] for k in range(1, len(self.order)))

    @property
    def pending(self) -> dict[Level, int]:
        """Return the incomplete levels, each with how many of the outer's values it does not know of."""
        return {level: int(n) for level, n in zip(self.levels, self._levels[1:, PENDING], strict=True) if n}

    @property
    def sizes(self) -> dict[Level, int]:
        """Return how many values each difference state holds."""
        return {level: int(n) for level, n in zip(self.levels, self._levels[1:, SIZE], strict=True)}

    @property
    def state_tuples(self) -> int:
        """Return the tuples in all states: rows in windows and values in differences."""
        return int(self._windows[:, LIVE].sum() + self._levels[1:, SIZE].sum())

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return int(self._values.nbytes + self._names.nbytes + self._entries.nbytes)

    @property
    def predicate_evaluations(self) -> int:
        """Return how often a window's state or a difference state was probed so far."""
        return int(self._totals[TESTED])

    def on_rows(self, arrivals: Mapping[str, CodedRows]) -> Matrix:
        """Take in rows and return the changes of the answer, in order of events; see `kernels.difference` for columns.

        Sequence numbers go on from one call to the next, and times with them.
        """
        arriving, starts = self._lay_out(arrivals)
        self._reserve_entries(np.diff(starts))
        expiring = int(self._windows[self._widths >= 0, LIVE].sum())
        changes = np.empty((2 * len(arriving) + expiring, OUT_SIZE), np.int64)
        count = apply_rows(
            arriving, starts, self._widths, self._places, self._levels, self._values,
            self._entries, self._windows, self._totals, changes,
        )  # fmt: skip
        if count < 0:
            alias = self.aliases[int(np.searchsorted(starts, -1 - count, side="right")) - 1]
            raise StateError(f"row {arriving[-1 - count, IN_PUSHED]} cannot leave the window of '{alias}': not there")
        return changes[:count].copy()

    def _lay_out(self, arrivals: Mapping[str, CodedRows]) -> tuple[Matrix, Vector]:
        """Return the arriving rows of all aliases, one alias after the other, and where each one starts."""
        starts = np.zeros(len(self.aliases) + 1, np.int64)
        for alias, rows in arrivals.items():
            starts[self.aliases.index(alias) + 1] = len(rows.times)
        np.cumsum(starts, out=starts)
        self._reserve_values(int(starts[-1]))
        arriving = np.full((int(starts[-1]), IN_SIZE), -1, np.int64)
        for alias, rows in arrivals.items():
            number = self.aliases.index(alias)
            mine = arriving[starts[number] : starts[number + 1]]
            mine[:, IN_TIME], mine[:, IN_SEQ], mine[:, IN_ROW] = rows.times, rows.seqs, rows.rows
            wanted = rows.rows >= 0
            mine[wanted, IN_VALUE] = self._lines(rows.codes[wanted])
            if self._widths[number] < 0:
                if rows.pushed is None:
                    raise StateError(f"rows of '{alias}' do not say which rows they push out of its window")
                mine[:, IN_PUSHED] = rows.pushed
        return arriving, starts

    def migrate(self, order: Sequence[str]) -> Reordering:
        """Go on in another order, at once; levels that the old one had keep their state, others learn just in time."""
        if tuple(order[:1]) != self.order[:1] or sorted(order) != sorted(self.order):
            raise PlanError(f"({' '.join(order)}) is no other order of the difference ({' '.join(self.order)})")
        old = {frozenset(level): self._levels[k + 1] for k, level in enumerate(self.levels)}
        sets = [frozenset(order[: k + 1]) for k in range(1, len(order))]
        if self._next_column + len(set(sets) - set(old)) > BITS:
            self._free_columns([old[aliases] for aliases in sets if aliases in old])
        lines = [self._levels[0]]
        for aliases in sets:
            lines.append(old[aliases] if aliases in old else self._incomplete_level())
        self.order, self._levels = tuple(order), np.array(lines, np.int64)
        self._number_levels()
        matched = tuple(level for level, aliases in zip(self.levels, sets, strict=True) if aliases in old)
        return Reordering(matched, tuple(self.pending))

    def _incomplete_level(self) -> Vector:
        """Return a level that knows nothing; with nothing to know, it is complete."""
        line = np.zeros(LEVEL_SIZE, np.int64)
        line[COLUMN], line[PENDING] = self._next_column, self._levels[0, SIZE]
        self._next_column += 1
        return line

    def _free_columns(self, kept: list[Vector]) -> None:
        """Give the levels to keep the first bits of the values, and clear all others."""
        held = self._values[: len(self._names)]
        for column in (MEMBER, KNOWN):
            bits = held[:, column].copy()
            held[:, column] = 0
            for k, line in enumerate(kept):
                held[:, column] |= (bits >> line[COLUMN] & 1) << k
        for k, line in enumerate(kept):
            line[COLUMN] = k
        self._next_column = len(kept)

    def renumber(self, alias: str, places: Vector, base: int) -> None:
        """Follow a row store that has numbered its rows anew: row n is `places[n - base]` now."""
        number = self.aliases.index(alias)
        self._pack(number, self._entries, int(self._windows[number, START]))
        first, end = self._windows[number, FIRST], self._windows[number, END]
        rows = self._entries[first:end, ROW]
        inside = (rows >= base) & (rows < base + len(places))
        if not inside.all() or (places[rows - base] < 0).any():
            raise StateError(f"a row in the window of '{alias}' is gone")
        rows[:] = places[rows - base]

    def _reserve_entries(self, counts: Vector) -> None:
        """Make room for that many new rows in each window: close its gaps, or lay all windows out anew."""
        windows = self._windows
        wanted = windows[:, LIVE] + counts
        rooms = np.maximum((wanted * ROOM).astype(np.int64), SMALLEST)
        short = windows[:, END] + counts > windows[:, LIMIT]
        # Closing gaps pays only while a fair part of the window's room is gaps.
        tight = short & (wanted > (windows[:, LIMIT] - windows[:, START]) * 0.8)
        if not tight.any() and len(self._entries) <= 4 * rooms.sum():
            for number in np.flatnonzero(short).tolist():
                self._pack(number, self._entries, int(windows[number, START]))
            return
        ends = np.cumsum(rooms)
        laid_out = np.zeros((int(ends[-1]), ENTRY_SIZE), np.int64)
        for number in range(len(self.aliases)):
            self._pack(number, laid_out, int(ends[number] - rooms[number]))
        windows[:, LIMIT] = ends
        self._entries = laid_out

    def _pack(self, number: int, target: Matrix, start: int) -> None:
        """Move the live rows of a window to another place, without gaps."""
        window = self._windows[number]
        held = self._entries[window[FIRST] : window[END]]
        held = held[held[:, VALUE] >= 0]
        target[start : start + len(held)] = held
        window[START], window[FIRST], window[END] = start, start, start + len(held)
        if number == self._levels[0, ALIAS]:
            chain_newest(target, start, start + len(held), self._values)

    def _reserve_values(self, count: int) -> None:
        """Make room for that many new values: drop those that no window holds, then grow or shrink to what is left."""
        held = self._values[: len(self._names)]
        if len(held) + count <= len(self._values):
            return
        kept = np.flatnonzero((held[:, COUNTS:] > 0).any(axis=1))
        self._values = grown(held[kept], len(kept), max(SMALLEST, int((len(kept) + count) * ROOM)))
        lines = self._names.keep(kept)
        for window in self._windows:
            values = self._entries[window[FIRST] : window[END], VALUE]
            values[:] = np.where(values >= 0, lines[values], -1)

    def _lines(self, codes: Matrix) -> Vector:
        """Return the line of each value, a new one for a new value."""
        before = len(self._names)
        lines = self._names.find(codes)
        fresh = self._values[before : len(self._names)]
        fresh[:] = 0
        fresh[:, NEWEST] = -1
        return lines
