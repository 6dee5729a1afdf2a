"""Partial results on their way between nodes: combinations of rows, one of each stream that was joined so far.

    new rows of a stream ──▶ partial results of one row ──▶ probe a window ──▶ those of two rows ──▶ ... ──▶ results

A partial result carries all that later steps need: time and offset of each of its rows, by which it is placed in the
one order, the columns that are still read, and the codes that are still compared. No node looks into another's rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.operators.expression.arrays import concatenated


@dataclass(frozen=True)
class Part:
    """The rows of one stream in partial results. Invariant: every array has one value per partial result."""

    times: Vector
    offsets: Vector
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.times)

    def take(self, places: Vector) -> "Part":
        """Return the rows at places."""
        where = pa.array(places)
        columns = {name: a.take(where) for name, a in self.columns.items()}
        return Part(self.times[places], self.offsets[places], columns)

    def between(self, start: int, stop: int) -> "Part":
        """Return the rows from start to stop."""
        columns = {name: a.slice(start, stop - start) for name, a in self.columns.items()}
        return Part(self.times[start:stop], self.offsets[start:stop], columns)

    def where(self, mask: Mask) -> "Part":
        """Return the rows for which the mask is true."""
        keep = pa.array(mask)
        columns = {name: a.filter(keep) for name, a in self.columns.items()}
        return Part(self.times[mask], self.offsets[mask], columns)

    def only(self, names: Iterable[str]) -> "Part":
        """Return the rows with some of their columns."""
        return Part(self.times, self.offsets, {n: self.columns[n] for n in names})

    def to_batch(self) -> pa.RecordBatch:
        """Return the rows as a batch: times, offsets, then the columns."""
        arrays = [pa.array(self.times), pa.array(self.offsets), *self.columns.values()]
        return pa.RecordBatch.from_arrays(arrays, names=["t", "o", *(f"v{n}" for n in self.columns)])

    @staticmethod
    def of_batch(batch: pa.RecordBatch, prefix: str = "") -> "Part":
        """Return the rows of a batch that `to_batch` made."""
        start = f"{prefix}v"
        columns = {n.removeprefix(start): batch.column(n) for n in batch.schema.names if n.startswith(start)}
        return Part(_numbers(batch.column(f"{prefix}t")), _numbers(batch.column(f"{prefix}o")), columns)


def _numbers(array: pa.Array) -> Vector:
    return np.array(array.to_numpy(zero_copy_only=False), np.int64)


NO_ROWS = Part(np.empty(0, np.int64), np.empty(0, np.int64), {})


def one_after_the_other(parts: list[Part]) -> Part:
    """Put rows together in the order given; they have the same columns."""
    if len(parts) == 1:
        return parts[0]
    columns = {n: concatenated([p.columns[n] for p in parts]) for n in parts[0].columns}
    return Part(np.concatenate([p.times for p in parts]), np.concatenate([p.offsets for p in parts]), columns)


@dataclass(frozen=True)
class Partials:
    """Partial results with the same streams done. Invariant: they are in the order of the rows that head them."""

    path: tuple[str, ...]
    """The aliases done, in the order they were joined; the head comes first."""
    codes: Matrix
    """One line per partial result: the key of the first equality class, then the codes that are compared later."""
    parts: Mapping[str, Part]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def head(self) -> Part:
        """Return the rows that head the partial results: the latest of each."""
        return self.parts[self.path[0]]

    def between(self, start: int, stop: int) -> "Partials":
        """Return the partial results from start to stop."""
        parts = {alias: part.between(start, stop) for alias, part in self.parts.items()}
        return Partials(self.path, self.codes[start:stop], parts)

    def span(self, low_us: int, high_us: int) -> "Partials":
        """Return those whose head is from a time on and before another."""
        start, stop = np.searchsorted(self.head.times, [low_us, high_us])
        return self if stop - start == len(self) else self.between(int(start), int(stop))

    def to_batch(self, codes: Iterable[int], columns: Mapping[str, Iterable[str]]) -> pa.RecordBatch:
        """Return them as a batch with some of the codes, and of each alias with some of the columns."""
        named = {f"c{k}": pa.array(np.ascontiguousarray(self.codes[:, k])) for k in codes}
        for place, alias in enumerate(self.path):
            part = self.parts[alias]
            named |= {f"{place}t": pa.array(part.times), f"{place}o": pa.array(part.offsets)}
            named |= {f"{place}v{name}": part.columns[name] for name in columns[alias]}
        return pa.RecordBatch.from_arrays(list(named.values()), names=list(named))

    @staticmethod
    def none(path: tuple[str, ...], width: int) -> "Partials":
        """Return no partial results of certain streams."""
        return Partials(path, np.empty((0, width), np.int64), dict.fromkeys(path, NO_ROWS))

    @staticmethod
    def of_batch(batch: pa.RecordBatch, path: tuple[str, ...], width: int) -> "Partials":
        """Return the partial results of a batch that `to_batch` made; codes that were left out are never read."""
        codes = np.zeros((batch.num_rows, width), np.int64)
        for name in batch.schema.names:
            if name.startswith("c"):
                codes[:, int(name[1:])] = _numbers(batch.column(name))
        parts = {alias: Part.of_batch(batch, str(place)) for place, alias in enumerate(path)}
        return Partials(path, codes, parts)
