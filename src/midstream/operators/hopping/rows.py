"""Operators on every row by itself: conditions and projections over rows of codes. No state."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.operators.expression.arrays import GROWTH, is_text
from midstream.operators.expression.evaluate import ColumnOf, evaluate_all, truth_of_all
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.tuples import Tuples
from midstream.plan.expr import Column, Expr, columns


@dataclass(frozen=True)
class Layout:
    """Which column of a matrix holds which column of a relation."""

    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.columns)

    def place(self, column: Column) -> int:
        """Return where a column is."""
        return self.columns.index(column)

    def places(self, columns: Sequence[Column]) -> Vector:
        """Return where some columns are."""
        return np.array([self.columns.index(c) for c in columns], np.int64)

    def reader(self, rows: Matrix, coding: Coding) -> ColumnOf:
        """Return a function from a column to its values, each decoded once."""
        decoded: dict[Column, pa.Array] = {}

        def values(column: Column) -> pa.Array:
            if column not in decoded:
                decoded[column] = coding.decode(np.ascontiguousarray(rows[:, self.place(column)]), column.type)
            return decoded[column]

        return values

    def pieces(self, rows: Matrix, coding: Coding, texts: Sequence[Column]) -> Iterator[Matrix]:
        """Yield rows in pieces of which some columns of texts fit into arrays, and longer ones as well."""
        if not texts:
            yield rows
            return
        for piece in coding.pieces(rows[:, self.places(texts)], [c.type for c in texts], GROWTH):
            yield rows[piece]


def texts_of(exprs: Iterable[Expr]) -> list[Column]:
    """Return the columns of texts that expressions read."""
    return list(dict.fromkeys(c for expr in exprs for c in columns(expr) if is_text(c.type)))


class Condition:
    """Conditions that all must be true."""

    def __init__(self, conjuncts: Sequence[Expr], layout: Layout, coding: Coding) -> None:
        self._conjuncts = tuple(conjuncts)
        self._texts = texts_of(conjuncts)
        self._layout = layout
        self._coding = coding

    def __bool__(self) -> bool:
        return bool(self._conjuncts)

    def holds(self, rows: Matrix) -> Mask:
        """Tell for which rows all conditions are true."""
        found = [
            truth_of_all(self._conjuncts, len(piece), self._layout.reader(piece, self._coding))
            for piece in self._layout.pieces(rows, self._coding, self._texts)
        ]
        return found[0] if len(found) == 1 else np.concatenate(found)


class ByRow:
    """What is given of some tuples does not depend on others, so that it can be computed in any pieces of any input."""

    def complete(self, now_us: int, tuples: Tuples) -> Tuples:
        """Return what is given of tuples."""
        raise NotImplementedError

    def delta(self, now_us: int, tuples: Tuples) -> Tuples:
        """Return what came and went."""
        return self.complete(now_us, tuples)

    def in_pieces(self, now_us: int, tuples: Tuples) -> Iterator[Tuples]:
        """Yield what is given of a piece of the input."""
        yield self.complete(now_us, tuples)


class SelectRows(ByRow):
    """Lets the tuples through for which every condition is true."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self.tested = 0

    def complete(self, now_us: int, tuples: Tuples) -> Tuples:
        """Return the tuples that pass."""
        self.tested += len(tuples)
        passed = self._condition.holds(tuples.rows)
        return tuples if passed.all() else tuples.where(passed)


class ProjectRows(ByRow):
    """Makes a new row of every row."""

    def __init__(self, exprs: Sequence[Expr], layout: Layout, coding: Coding) -> None:
        self._exprs = tuple(exprs)
        self._layout = layout
        self._coding = coding
        self._computed = [e for e in exprs if not isinstance(e, Column)]
        self._texts = texts_of(self._computed)
        plain = [e for e in exprs if isinstance(e, Column)]
        self._places = layout.places(plain) if len(plain) == len(exprs) else None
        self._same = self._places is not None and list(self._places) == list(range(len(layout)))
        self.tested = 0

    def complete(self, now_us: int, tuples: Tuples) -> Tuples:
        """Return the tuples projected."""
        if self._same:
            return tuples
        if self._places is not None:
            return Tuples(np.ascontiguousarray(tuples.rows[:, self._places]), tuples.until, tuples.signs)
        rows = np.empty((len(tuples), len(self._exprs)), np.int64)
        at = 0
        for piece in self._layout.pieces(tuples.rows, self._coding, self._texts):
            values = self._layout.reader(piece, self._coding)
            computed = iter(evaluate_all(self._computed, len(piece), values, large=True))
            out = rows[at : at + len(piece)]
            for k, expr in enumerate(self._exprs):
                if isinstance(expr, Column):
                    out[:, k] = piece[:, self._layout.place(expr)]
                else:
                    out[:, k] = self._coding.encode(next(computed))
            at += len(piece)
        return Tuples(rows, tuples.until, tuples.signs)
