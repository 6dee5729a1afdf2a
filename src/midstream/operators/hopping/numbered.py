"""Numbered values: strings or decimals, each different one once, numbered as they are first seen.

    array ──▶ runs of bytes ──▶ hashed ──▶ found in a table of numbers, bytes compared ──▶ numbers
                                               └──▶ new ones are appended

State: the bytes of every value, end to end, their hashes, and the table. What is known is not gone over again, but for
the table when it has doubled.
"""

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Bytes, Mask, Vector
from midstream.kernels.codes import find_runs, hash_bytes, shared_bytes, take_bytes, words_at
from midstream.kernels.values import place_slots
from midstream.operators.expression.arrays import array_of, byte_runs, text_array, text_pieces, validity
from midstream.operators.source import memory
from midstream.operators.source.tape import Tape, grown

PART_BYTES = 1 << 26
"""New values are copied so many bytes at a time."""


class Numbered:
    """Values of one type, each with its number."""

    def __init__(self, t: pa.DataType) -> None:
        self.type = t
        self._count = 0
        self.longest = 0
        """The bytes of the longest value."""
        self._offsets, self._data = Tape(np.int64), Tape(np.uint8)
        self._offsets.append(np.zeros(1, np.int64))
        self._hashes = np.empty(64, np.int64)
        self._table = np.full((128, 1), -1, np.int32)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self._offsets.nbytes + self._data.nbytes + self._hashes.nbytes + self._table.nbytes

    def numbers(self, array: pa.Array) -> Vector:
        """Return the number of every value, new numbers for new values; NULL's is any."""
        valid = validity(array)
        if valid is not None:
            out = np.zeros(len(array), np.int64)
            out[valid] = self.numbers(array.drop_null())
            return out
        offsets, data = byte_runs(array)
        self._make_room(self._count + len(array))
        fresh = np.empty(len(array), np.int64)
        known = self._count
        out, self._count = find_runs(
            self._table, self._hashes, known, self._offsets.view(), self._data.view(),
            hash_bytes(offsets, data, 0), offsets, data, fresh,
        )  # fmt: skip
        if self._count > known:
            self._keep(offsets, data, fresh[: self._count - known])
        return out

    def _keep(self, offsets: Vector, data: Bytes, fresh: Vector) -> None:
        """Append the bytes of some values, a part at a time: all of them may be as much as there is room for."""
        sizes = offsets.take(fresh + 1) - offsets.take(fresh)
        self._offsets.append(len(self._data) + np.cumsum(sizes))
        room = self._data.extend(int(sizes.sum()))
        at = 0
        for piece in text_pieces([sizes], len(fresh), PART_BYTES):
            _, part = take_bytes(offsets, data, 0, fresh[piece])
            room[at : at + len(part)] = part
            at += len(part)
        self.longest = max(self.longest, int(sizes.max()))

    def sizes(self, numbers: Vector) -> Vector:
        """Return how many bytes the value of each number has; of one that is no number as many as any."""
        offsets, places = self._offsets.view(), np.clip(numbers, 0, self._count - 1)
        out: Vector = offsets.take(places + 1) - offsets.take(places)
        return out

    def shared(self, numbers: Vector) -> int:
        """Return with how many bytes all values of some numbers begin alike."""
        return int(shared_bytes(self._offsets.view(), self._data.view(), numbers)) if len(numbers) else 0

    def words(self, numbers: Vector, skip: int) -> Vector:
        """Return eight bytes of the value of each number, after the first few, as integers in the order of bytes."""
        return words_at(self._offsets.view(), self._data.view(), skip, numbers)

    def values(self, numbers: Vector, valid: Mask | None, large: bool = False) -> pa.Array:
        """Return the values of numbers as an array; NULL where it is not valid. See `text_array` for `large`."""
        if valid is not None:
            numbers = np.where(valid, numbers, 0)
        if not self._count:
            return pa.nulls(len(numbers), self.type)
        if pa.types.is_string(self.type):
            if len(numbers) * self.longest >= memory.CHECKED_BYTES:
                memory.check_room(int(self.sizes(numbers).sum()), "the texts of a column")
            return text_array(*take_bytes(self._offsets.view(), self._data.view(), 0, numbers), valid, large)
        return array_of(self.type, self._data.view().view(np.int64).reshape(-1, 2).take(numbers, axis=0), valid)

    def _make_room(self, size: int) -> None:
        if size > len(self._hashes):
            self._hashes = grown(self._hashes, self._count, max(size, 3 * len(self._hashes) // 2))
        if 2 * size > len(self._table):
            self._table = np.full((1 << (2 * size).bit_length(), 1), -1, np.int32)
            place_slots(self._table, self._hashes, self._count)
