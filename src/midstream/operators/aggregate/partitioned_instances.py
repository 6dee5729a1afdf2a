"""Window instances of a count of rows per key.

    key (two codes) ──▶ slot: how many rows have come, where the last one is ──▶ link ──▶ the one before ──▶ ...

Rows of many keys lie mixed in the stage's rows; those no longer needed stay until they are more than the others, then
all that is needed is numbered anew. A key whose next row starts an instance, and that no open instance holds a row of,
is like a new one and is forgotten then. But when earlier rows of it may have been written down, it is forgotten only
after its last row was, too: read back alone, the earlier ones would look as if they were needed.

A window that drains opens no instance: it takes rows only of keys with an open instance that holds an old row.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.instances import count_rows, gather_rows, link_rows, mark_rows, take_owed
from midstream.operators.aggregate.instances import NEVER_US, Closing, ColumnOf, InstancesState, closing
from midstream.operators.aggregate.stage_rows import StageRows, column
from midstream.operators.expression.codes import partition_codes
from midstream.operators.source.tape import Tape, grown, grown_with_zeros
from midstream.operators.source.value_table import ValueTable
from midstream.plan.window import RowsInstances

SLACK_ROWS = 1024
"""How many rows that are not needed any more are never worth moving the others."""


class PartitionedInstancesState(InstancesState):
    """Instances of a number of rows of each key.

    Invariant: the rows of a key that are needed are its last ones, linked without a gap. A key with a row in an open
    instance, or between two instances, has at least one; its last row tells how many have come.
    """

    def __init__(self, window: RowsInstances) -> None:
        self.size, self.slide, self.by = window.count, window.slide, window.partition_by
        self.codes = Tape(np.int64, 2)
        self.nths = Tape(np.int64)
        """The number of each row within its key."""
        self.links = Tape(np.int64)
        """The place of the row before with the same key, or -1."""
        self.needed = 0
        """How many rows are needed."""
        self.packed = 0
        """How many rows were left when they were last packed."""
        self.drain_us = NEVER_US
        """Instances without a row from before are not opened any more; NEVER: it does not drain."""
        self.owed = np.empty(0, np.int64)
        """While it drains: how many rows each key takes until its last instance with an old row has closed."""
        self.done = 0
        """Keys that have taken their last row since rows were last packed."""
        self._start()

    def _start(self) -> None:
        self.keys = ValueTable(2)
        self.counts, self.lasts = np.zeros(16, np.int64), np.full(16, -1, np.int64)

    def admit(self, column: ColumnOf, trigger_us: Vector) -> Mask | None:
        """Take in the keys of the rows; all rows are held, since they tell the count."""
        arrays: Sequence[pa.Array] = [column(c) for c in self.by]
        codes = partition_codes(list(arrays))
        if self.drain_us == NEVER_US:
            self.codes.append(codes)
            return None
        inside, done = take_owed(self.keys.known(codes), self.counts[: len(self.keys)], self.owed)
        self.codes.append(codes[inside])
        self.done += int(done)
        return inside

    def drain(self, rows: StageRows, position_us: int) -> None:
        """Open no instance any more that holds no row from before a position."""
        if self.drain_us != position_us:
            self.drain_us = position_us
            self._drop_paid(rows, 0)

    def _drop_paid(self, rows: StageRows, handed_out: int) -> None:
        """Drop the rows of keys that owe nothing any more; find what the others owe."""
        slots = self._slots(self.codes.view())
        owed = self._find_owed(rows, slots)
        mask = self.needed_rows(rows) & (owed[slots] > self.counts[slots])
        if handed_out:
            mask |= self.durable_rows(rows) & (rows.numbers.view() >= handed_out)
        self._pack(rows, mask)
        self.needed, self.done = len(rows), 0
        self.owed = self._find_owed(rows, self._slots(self.codes.view()))

    def _find_owed(self, rows: StageRows, slots: Vector) -> Vector:
        old = rows.oldest_us.view() < self.drain_us
        counts = np.zeros(len(self.keys), np.int64)
        np.maximum.at(counts, slots[old], self.nths.view()[old] + 1)
        return np.where(counts > 0, (counts - 1) // self.slide * self.slide + self.size, 0)

    def close(self, rows: StageRows, fresh: int, clock_us: int) -> Closing | None:
        """Close the instances whose last row is among those just admitted."""
        first = len(rows) - fresh
        slots = self._slots(self.codes.view()[first:])
        nths, links = self.nths.extend(fresh), self.links.extend(fresh)
        closers, more = count_rows(slots, first, self.counts, self.lasts, nths, links, self.size, self.slide)
        self.needed += int(more)
        if not len(closers):
            return None
        order = np.argsort(slots[closers], kind="stable")
        closers = closers[order]
        places, lows = gather_rows(closers + first, slots[closers], self.nths.view(), self.links.view(), self.size)
        return closing(rows, places, lows, lows + self.size)

    def _slots(self, keys: Matrix) -> Vector:
        """Return the slot of each key, new ones for new keys."""
        slots = self.keys.find(keys)
        count, size = len(self.counts), len(self.keys)
        if size > count:
            size = size * 3 // 2
            self.counts = grown_with_zeros(self.counts, count, size)
            self.lasts = grown(self.lasts, count, size)
            self.lasts[count:] = -1
        return slots

    def forget(self, rows: StageRows, handed_out: int) -> None:
        """Drop the rows that are not needed, once they are more than the others."""
        if self.drain_us != NEVER_US:
            if 2 * self.done > len(self.keys):
                self._drop_paid(rows, handed_out)
            return
        if len(rows) > 2 * max(self.needed, self.packed) + SLACK_ROWS:
            mask = self.needed_rows(rows)
            if handed_out:
                mask |= self.durable_rows(rows) & (rows.numbers.view() >= handed_out)
            self._pack(rows, mask)

    def _pack(self, rows: StageRows, mask: Mask) -> None:
        rows.keep(mask)
        self.codes.keep(mask)
        self.nths.keep(mask)
        self.packed = len(rows)
        self._link()

    def _link(self) -> None:
        """Find keys, counts and links from codes and numbers of the rows alone."""
        self._start()
        slots = self._slots(self.codes.view())
        links = np.empty(len(slots), np.int64)
        link_rows(slots, self.counts, self.lasts, self.nths.view(), links)
        self.links.reset(links)

    def open_rows(self, rows: StageRows) -> Mask:
        """Tell which rows an open instance holds."""
        return self._marked(0)

    def needed_rows(self, rows: StageRows) -> Mask:
        """Tell which rows an open instance holds, or are the last of a key between two."""
        return self._marked(1)

    def durable_rows(self, rows: StageRows) -> Mask:
        """Tell which rows are needed or the last of a key."""
        return self._marked(2)

    def _marked(self, also: int) -> Mask:
        counts, lasts = self.counts[: len(self.keys)], self.lasts[: len(self.keys)]
        return mark_rows(counts, lasts, self.links.view(), self.size, self.slide, also)

    def in_step(self, other: "PartitionedInstancesState", mine: Vector, theirs: Vector) -> bool:
        """Tell whether instances of every key begin at the same rows."""
        apart = self.nths.view()[mine] - other.nths.view()[theirs]
        return not (apart % self.slide).any()

    def columns(self, places: Vector) -> dict[str, pa.Array]:
        """Return the codes of the keys and the numbers within them."""
        codes, nths = self.codes.view()[places], self.nths.view()[places]
        parts = {"_code0": codes[:, 0], "_code1": codes[:, 1], "_nth": nths}
        return {name: pa.array(np.ascontiguousarray(values)) for name, values in parts.items()}

    def counters(self) -> dict[str, int]:
        """Return nothing: all there is to know is in the rows."""
        return {}

    def restore(self, rows: StageRows, written: pa.Table, counters: dict[str, int]) -> None:
        """Go on from what was written down, rows that are not needed among it or not."""
        codes = [column(written, name).to_numpy(zero_copy_only=False) for name in ("_code0", "_code1")]
        self.codes.reset(np.column_stack(codes))
        self.nths.reset(column(written, "_nth").to_numpy(zero_copy_only=False))
        self._link()
        self._pack(rows, self.needed_rows(rows))
        self.needed = len(rows)

    @property
    def nbytes(self) -> int:
        """Return the memory held beside the rows."""
        held = (self.keys, self.counts, self.lasts, self.codes, self.nths, self.links)
        return sum(part.nbytes for part in held)
