"""Held rows: the rows in the windows of one version as they came, in memory: what durable rows are without a store.

They are references to the micro-batches that brought them. A run can be built from them at any time, of whatever plan.
"""

from collections.abc import Sequence

from midstream.engine.bucket.chunks import Chunk
from midstream.engine.rows.rows import Rows
from midstream.model.time import FOREVER


class HeldRows:
    """Rows by alias in FROM order, in parts that go when their last row is not needed any more."""

    def __init__(self) -> None:
        self._parts: dict[int, list[tuple[Rows, int]]] = {}
        """Rows by alias, and how large they are."""
        self.nbytes = 0
        """How large the rows are; they may keep more than that in memory."""

    def chunks(self, alias: int) -> list[Chunk]:
        """Return what is known of the parts of an alias."""
        return [Chunk(0, len(rows), int(rows.times[-1])) for rows, _ in self._parts.get(alias, [])]

    def window_rows(self, alias: int, names: Sequence[str]) -> list[Rows]:
        """Return the rows of an alias, oldest first."""
        return [rows for rows, _ in self._parts.get(alias, [])]

    def add(self, alias: int, rows: Rows) -> None:
        """Hold rows that have entered the window of an alias."""
        if len(rows):
            nbytes = _size(rows)
            self._parts.setdefault(alias, []).append((rows, nbytes))
            self.nbytes += nbytes

    def replace(self, alias: int, rows: Rows) -> None:
        """Hold these rows, and no others, as the window of an alias."""
        self.nbytes -= sum(nbytes for _, nbytes in self._parts.pop(alias, []))
        self.add(alias, rows)

    def expire(self, alias: int, before_us: int | None, keep_rows: int | None, until_us: int = FOREVER) -> None:
        """Drop parts whose rows are all before a time, or that `keep_rows` rows before `until_us` have followed."""
        parts = self._parts.get(alias, [])
        gone, later = 0, 0
        if keep_rows is not None:
            later = sum(len(rows) for rows, _ in parts if rows.times[-1] < until_us)
        for rows, nbytes in parts:
            later -= len(rows) if rows.times[-1] < until_us else 0
            expired = before_us is not None and rows.times[-1] < before_us
            pushed_out = keep_rows is not None and later >= keep_rows
            if not (expired or pushed_out):
                break
            self.nbytes -= nbytes
            gone += 1
        del parts[:gone]


def _size(rows: Rows) -> int:
    return 16 * len(rows) + sum(int(column.nbytes) for column in rows.columns.values())
