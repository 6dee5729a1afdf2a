"""The output schema before and after a change: what a sink would notice."""

import pyarrow as pa

from midstream.model.types import type_name


def schema_change(old: pa.Schema, new: pa.Schema) -> list[str]:
    """Say how the output changes, one sentence a column; nothing when it does not.

    >>> before = pa.schema([("k", pa.int64()), ("total", pa.int64())])
    >>> schema_change(before, pa.schema([("k", pa.int64()), ("total", pa.float64()), ("n", pa.int64())]))
    ["column 'total' was BIGINT and becomes DOUBLE", "column 'n' (BIGINT) is added"]
    >>> schema_change(before, before)
    []
    """
    said = []
    for field in old:
        if field.name not in new.names:
            said.append(f"column '{field.name}' ({type_name(field.type)}) is removed")
        elif new.field(field.name).type != field.type:
            after = type_name(new.field(field.name).type)
            said.append(f"column '{field.name}' was {type_name(field.type)} and becomes {after}")
    said += [f"column '{f.name}' ({type_name(f.type)}) is added" for f in new if f.name not in old.names]
    kept = [name for name in new.names if name in old.names]
    if kept != [name for name in old.names if name in new.names]:
        said.append(f"columns come in another order: {', '.join(new.names)}")
    return said
