"""The columns of a query's output over all its versions."""

import pyarrow as pa

from midstream.change.repository import united
from midstream.plan.plan import Plan

SYSTEM = ("_time", "_version", "_hop", "_sign")
"""What the system adds to a select list, in this order."""


def output_schema(*plans: Plan) -> pa.Schema:
    """Return the columns of a query's output; of several versions, those of all of them."""
    selected = united([p.query.schema for p in plans])
    added = {name for p in plans for name in p.query.output_schema.names if name in SYSTEM}
    return pa.schema([*selected, *(pa.field(name, pa.int64()) for name in SYSTEM if name in added)])
