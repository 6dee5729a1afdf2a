"""Row store: the rows of one source that can still take part in results, by row number.

arriving rows ──▶ append ──▶ columns, times, sequence numbers, codes ──▶ taken when a result needs them
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.operators.codes import Codes
from midstream.operators.column_store import ColumnStore
from midstream.operators.tape import Tape

Vector = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]


class RowStore:
    """Rows numbered from 0 in arrival order.

    Sequence numbers are kept only where results of several buckets must be merged. Invariant: all tapes hold the
    same rows, the first of them numbered `base`.
    """

    def __init__(self, columns: dict[str, pa.DataType], code_count: int, keep_seqs: bool) -> None:
        self.columns = {name: ColumnStore(t) for name, t in columns.items()}
        self.times = Tape(np.int64)
        self.seqs = Tape(np.int64) if keep_seqs else None
        self.codes = [Tape(np.int64) for _ in range(code_count)]
        self.code_valid: list[Tape | None] = [None] * code_count

    def __len__(self) -> int:
        return len(self.times)

    @property
    def base(self) -> int:
        """Return the number of the oldest row held."""
        return self.times.base

    @property
    def end(self) -> int:
        """Return the number the next row will get."""
        return self.times.base + len(self.times)

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return sum(part.nbytes for part in self._parts())

    def append(self, times: Vector, seqs: Vector, columns: dict[str, pa.Array], codes: list[Codes]) -> None:
        """Add rows at the end."""
        before = len(self)
        for name, store in self.columns.items():
            store.append(columns[name])
        for k, part in enumerate(codes):
            valid = self.code_valid[k]
            if part.valid is not None and valid is None:
                valid = self.code_valid[k] = Tape(np.bool_)
                valid.reset(np.ones(before, np.bool_), self.base)
            if valid is not None:
                valid.append(np.ones(len(seqs), np.bool_) if part.valid is None else part.valid)
            self.codes[k].append(part.values)
        self.times.append(times)
        if self.seqs is not None:
            self.seqs.append(seqs)

    def drop_front(self, count: int) -> None:
        """Let go of the oldest rows."""
        if count:
            for part in self._parts():
                part.drop_front(count)

    def keep(self, mask: npt.NDArray[np.bool_]) -> Vector:
        """Let go of the rows where the mask is false and number the rest from 0.

        Return the new number of each row held before, -1 for those gone.
        """
        places = np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int64)
        for part in self._parts():
            part.keep(mask)
        return places

    def _parts(self) -> list[Tape | ColumnStore]:
        some = [t for t in (self.seqs, *self.code_valid) if t is not None]
        return [*self.columns.values(), self.times, *self.codes, *some]

    def take(self, column: str, rows: Vector) -> pa.Array:
        """Return a column of the given rows."""
        return self.columns[column].take(rows - self.base)

    def export(self) -> Arrays:
        """Return the rows as arrays that `load` takes back."""
        out: Arrays = {"base": np.array([self.base]), "times": self.times.view().copy()}
        if self.seqs is not None:
            out["seqs"] = self.seqs.view().copy()
        for name, store in self.columns.items():
            out |= {f"column.{name}.{part}": array for part, array in store.export().items()}
        for k, tape in enumerate(self.codes):
            out[f"code.{k}"] = tape.view().copy()
            valid = self.code_valid[k]
            if valid is not None:
                out[f"code.{k}.valid"] = valid.view().copy()
        return out

    def load(self, arrays: Arrays) -> None:
        """Hold what another store exported."""
        base = int(arrays["base"][0])
        self.times.reset(arrays["times"], base)
        if self.seqs is not None:
            self.seqs.reset(arrays["seqs"], base)
        for name, store in self.columns.items():
            prefix = f"column.{name}."
            parts = {
                part: arrays[prefix + part]
                for part in ("offsets", "data", "values", "valid")
                if prefix + part in arrays
            }
            store.load(parts, base)
        for k, tape in enumerate(self.codes):
            tape.reset(arrays[f"code.{k}"], base)
            self.code_valid[k] = None
            if f"code.{k}.valid" in arrays:
                valid = self.code_valid[k] = Tape(np.bool_)
                valid.reset(arrays[f"code.{k}.valid"], base)
