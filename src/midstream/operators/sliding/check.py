"""Checks: what is left to verify of a candidate result once its codes agree."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Matrix
from midstream.kernels.codes import equal_bytes
from midstream.kernels.entries import ROWS
from midstream.operators.expression.arrays import GROWTH, most_text, text_pieces
from midstream.operators.expression.evaluate import read_texts, truth
from midstream.operators.sliding.pipeline import lookup, text_sizes
from midstream.operators.source.row_store import Holder, RowStore
from midstream.plan.expr import Call, Column, Expr


@dataclass(frozen=True)
class TrueOf:
    """Any condition over the rows of a result."""

    condition: Expr
    components: tuple[str, ...]
    scans: Mapping[str, Holder]

    def __call__(self, batch: Matrix) -> Mask:
        """Tell for which candidates the condition is true."""
        sizes = text_sizes(read_texts([self.condition]), self.components, batch, self.scans)
        pieces = [batch[piece] for piece in text_pieces(sizes, len(batch), most_text(GROWTH))]
        found = [truth(self.condition, len(p), lookup(self.components, p, self.scans)) for p in pieces]
        return found[0] if len(found) == 1 else np.concatenate(found)


@dataclass(frozen=True)
class SameText:
    """Two string columns compared where they lie; rows with a null never come this far."""

    left: RowStore
    left_column: str
    left_component: int
    right: RowStore
    right_column: str
    right_component: int

    def __call__(self, batch: Matrix) -> Mask:
        """Tell which candidates have the same text in both columns."""
        x, y = self.left.columns[self.left_column], self.right.columns[self.right_column]
        return equal_bytes(
            x.offsets.view(), x.data.view(), x.data.base, batch[:, ROWS + self.left_component] - self.left.base,
            y.offsets.view(), y.data.view(), y.data.base, batch[:, ROWS + self.right_component] - self.right.base,
        )  # fmt: skip


Residual = Callable[[Matrix], Mask]
"""Tells for each candidate result whether it holds."""


def check_of(condition: Expr, components: tuple[str, ...], scans: Mapping[str, Holder]) -> Residual:
    """Return how a condition is verified of results with the given components."""
    if isinstance(condition, Call) and condition.function == "=":
        left, right = condition.args
        if isinstance(left, Column) and isinstance(right, Column) and pa.types.is_string(left.type):
            places = [components.index(c.alias) for c in (left, right)]
            stores = [scans[c.alias].store for c in (left, right)]
            return SameText(stores[0], left.name, places[0], stores[1], right.name, places[1])
    return TrueOf(condition, components, scans)
