"""Streams that the tests of the language ask about."""

import pyarrow as pa

from midstream.model.stream import StreamSchema

ORDERS = StreamSchema(
    "orders",
    pa.schema(
        [
            ("ts", pa.timestamp("us")),
            ("k", pa.int64()),
            ("x", pa.int32()),
            ("s", pa.string()),
            ("day", pa.date32()),
            ("amount", pa.decimal128(10, 2)),
            ("open", pa.bool_()),
            ("tags", pa.list_(pa.string())),
        ]
    ),
    "ts",
)
PRICES = StreamSchema(
    "prices",
    pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("price", pa.float64()), ("Unit", pa.string())]),
    "ts",
)
STOCK = StreamSchema("stock", pa.schema([("ts", pa.int64()), ("k", pa.int32()), ("qty", pa.int64())]), "ts")
CATALOG = [ORDERS, PRICES, STOCK]
