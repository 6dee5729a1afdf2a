"""A user's class that drawn queries call as SPREAD: largest less smallest value, found in a way of its own."""

from typing import Any

import pyarrow as pa

from midstream.local.aggregates import user_aggregate
from midstream.plan.aggregates import UserAggregate


def spread_class() -> type:
    """Return a class that no module has, as in a notebook: workers get it whole."""

    class Spread:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def process(self, rows: pa.Array) -> Any:
            for value in rows.to_pylist():
                self.seen.append(value)
                self.seen.sort()
            return self.seen[-1] - self.seen[0] if self.seen else None

    return Spread


OWN: dict[str, UserAggregate] = {"spread": user_aggregate("spread", spread_class(), "BIGINT")}
IN_DUCKDB = "CREATE OR REPLACE MACRO spread(x) AS max(x) - min(x)"
