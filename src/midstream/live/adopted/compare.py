"""Compare what two versions have answered to the same segment, as bags of rows.

Numbers with a fraction are compared to nine digits: Spark adds them up in any order.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

EXAMPLES = 3
"""Rows of each side that are shown."""
_DIGITS = 9


@dataclass(frozen=True)
class Difference:
    """Rows that only one of two answers has."""

    missing: int
    """Rows that the old version has and the new one has not."""
    extra: int
    """Rows that the new version has and the old one has not."""
    missing_rows: tuple[str, ...]
    extra_rows: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Say what is different, with examples."""
        said = [f"{n:,} {what} ({'; '.join(rows)}{'; ...' if n > len(rows) else ''})"
                for n, what, rows in ((self.missing, "rows are missing", self.missing_rows),
                                      (self.extra, "rows are extra", self.extra_rows)) if n]  # fmt: skip
        return " and ".join(said)


def difference(old: pa.Table, new: pa.Table) -> Difference | None:
    """Return how two bags of rows differ, None when they are the same.

    >>> old = pa.table({"k": [1, 1, 2], "v": [0.1 + 0.2, 1.0, 2.0]})
    >>> new = pa.table({"k": [2, 1, 3], "v": [2.0, 0.3, 2.0]})
    >>> print(difference(old, new).sentence)
    1 rows are missing (k=1, v=1) and 1 rows are extra (k=3, v=2)
    >>> one, two = ({"a": [a], "b": [b]} for a, b in (("x, b=y", "z"), ("x", "y, b=z")))
    >>> difference(pa.table(one), pa.table(two)) is None
    False
    >>> difference(old, old.take([2, 1, 0])) is None
    True
    """
    before, after = bag(old), bag(new)
    missing, extra = before - after, after - before
    if not missing and not extra:
        return None
    return Difference(missing.total(), extra.total(), _examples(missing), _examples(extra))


def bag(table: pa.Table) -> Counter[str]:
    """Return the rows of a table, as text, and how often each is there."""
    return Counter(", ".join(f"{name}={_text(value)}" for name, value in row.items()) for row in table.to_pylist())


def _examples(rows: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(rows)[:EXAMPLES])


def _text(value: Any) -> str:
    """Write a value so that equal ones are written alike.

    >>> _text(0.1 + 0.2), _text({"start": 1, "end": [2.0]}), _text(-0.0)
    ('0.3', '{start: 1, end: [2]}', '0')
    >>> _text("None"), _text(None)
    ("'None'", 'None')
    """
    if isinstance(value, float):
        return f"{value or 0.0:.{_DIGITS}g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(held)}" for name, held in value.items()) + "}"
    if isinstance(value, list | tuple):
        return _list(value)
    return repr(value) if isinstance(value, str) else str(value)


def _list(values: Iterable[Any]) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"
