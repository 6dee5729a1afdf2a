"""Checks: what is left to verify of a candidate result once its codes agree."""

from dataclasses import dataclass

from midstream.kernels.arrays import Mask, Matrix
from midstream.kernels.codes import equal_bytes
from midstream.kernels.entries import ROWS
from midstream.operators.expression.evaluate import truth
from midstream.operators.sliding.pipeline import lookup
from midstream.operators.source.row_store import RowStore
from midstream.operators.source.scan import Scan
from midstream.plan.expr import Expr


@dataclass(frozen=True)
class TrueOf:
    """Any condition over the rows of a result."""

    condition: Expr
    components: tuple[str, ...]
    scans: dict[str, Scan]

    def __call__(self, batch: Matrix) -> Mask:
        """Tell for which candidates the condition is true."""
        return truth(self.condition, len(batch), lookup(self.components, batch, self.scans))


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
        same: Mask = equal_bytes(
            x.offsets.view(), x.data.view(), x.data.base, batch[:, ROWS + self.left_component] - self.left.base,
            y.offsets.view(), y.data.view(), y.data.base, batch[:, ROWS + self.right_component] - self.right.base,
        )  # fmt: skip
        return same
