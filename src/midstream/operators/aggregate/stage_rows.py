"""Stage rows: what a stage remembers of the rows that an open window instance may hold.

arriving rows ──▶ WHERE, keys and arguments evaluated once ──▶ kept until every instance that holds them has closed
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.model.batch import TRIGGER, Lineage
from midstream.operators.aggregate.held_sums import HELD, HeldSums
from midstream.operators.aggregate.set_store import SetStore, read_sets
from midstream.operators.expression.arrays import concatenated
from midstream.operators.source.column_store import ColumnStore
from midstream.operators.source.row_store import Part, TapedRows
from midstream.operators.source.tape import Tape

_TRIGGER = [f"_trigger{k}" for k in range(TRIGGER)]
_SETS = "_sets"


class StageRows(TapedRows):
    """Rows in the order they came, each with a number that counts all rows ever taken in.

    Invariant: all tapes hold the same rows; numbers and triggers do not decrease.
    """

    def __init__(self, columns: dict[str, pa.DataType]) -> None:
        self.columns = {name: HeldSums() if t == HELD else ColumnStore(t) for name, t in columns.items()}
        self.numbers = Tape(np.int64)
        self.times = Tape(np.int64)
        self.trigger_us = Tape(np.int64)
        """The time of what made the row leave the level below: its place in windows of time."""
        self.trigger_rest = Tape(np.int64, TRIGGER - 1)
        self.oldest_us = Tape(np.int64)
        self.prints = Tape(np.int64)
        self.passed = Tape(np.bool_)
        """Whether WHERE is true."""
        self.sets: SetStore | None = None
        """The rows of the query that each row is made of; None: no two rows here have any in common."""
        self.next_number = 0

    def __len__(self) -> int:
        return len(self.numbers)

    def like(self, columns: dict[str, pa.DataType]) -> "StageRows":
        """Return an empty store of other columns that keeps the same of each row."""
        out = StageRows(columns)
        out.sets = None if self.sets is None else SetStore()
        return out

    def append(self, times: Vector, trigger: Matrix, lineage: Lineage, passed: Mask, columns: list[pa.Array]) -> None:
        """Add rows at the end; `columns` as they were named at the start."""
        count = len(times)
        self.numbers.append(np.arange(self.next_number, self.next_number + count, dtype=np.int64))
        self.next_number += count
        self.times.append(times)
        self.trigger_us.append(trigger[:, 0])
        self.trigger_rest.append(trigger[:, 1:TRIGGER])
        self.oldest_us.append(lineage.oldest_us)
        self.prints.append(lineage.prints)
        if self.sets is not None:
            self.sets.append(lineage.sets, count)
        self.passed.append(passed)
        for store, array in zip(self.columns.values(), columns, strict=True):
            store.append(array)

    def triggers(self, places: Vector) -> Matrix:
        """Return what made the rows at the given places leave the level below."""
        return np.column_stack([self.trigger_us.view()[places], self.trigger_rest.view()[places]])

    def take(self, places: Vector) -> dict[str, pa.Array]:
        """Return everything about the rows at the given places, to be written down."""
        trigger = self.triggers(places)
        plain = {
            "_number": self.numbers.view()[places],
            "_time": self.times.view()[places],
            **{name: np.ascontiguousarray(trigger[:, k]) for k, name in enumerate(_TRIGGER)},
            "_oldest": self.oldest_us.view()[places],
            "_print": self.prints.view()[places],
            "_passed": self.passed.view()[places],
        }
        columns = {name: store.take(places, large=True) for name, store in self.columns.items()}
        sets = {} if self.sets is None else {_SETS: self.sets.take(places)}
        return {name: pa.array(values) for name, values in plain.items()} | sets | columns

    def load(self, rows: pa.Table, next_number: int) -> None:
        """Take in rows that were written down, into an empty store."""
        written = {name: column(rows, name) for name in rows.column_names if name[0] == "_"}
        lists = written.pop(_SETS, None)
        plain = {name: array.to_numpy(zero_copy_only=False) for name, array in written.items()}
        trigger = np.column_stack([plain[name] for name in _TRIGGER])
        columns = [column(rows, name) for name in self.columns]
        sets = None if lists is None or self.sets is None else read_sets(lists)
        lineage = Lineage(plain["_oldest"], plain["_print"], sets=sets)
        self.append(plain["_time"], trigger, lineage, plain["_passed"], columns)
        self.numbers.reset(plain["_number"])
        self.next_number = next_number

    def parts(self) -> Sequence[Part]:
        """Return all tapes and columns."""
        tapes = [self.numbers, self.times, self.trigger_us, self.trigger_rest, self.oldest_us, self.prints, self.passed]
        sets: list[Part] = [] if self.sets is None else [self.sets]
        return [*tapes, *sets, *self.columns.values()]


def column(rows: pa.Table, name: str) -> pa.Array:
    """Return a column of a table in one piece."""
    chunks = rows.column(name).chunks
    return concatenated(chunks) if chunks else pa.nulls(0, rows.schema.field(name).type)
