"""Make the streams of the demo: five minutes of a web shop, clicks a little out of order."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
START = np.datetime64("2026-03-01T09:00:00", "us")
SPAN_US = 300_000_000
ORDERS = 6_000


def main() -> None:
    rng = np.random.default_rng(20260301)
    at = np.sort(rng.integers(0, SPAN_US, ORDERS))
    order = np.arange(1, ORDERS + 1)
    customer = np.array([f"c-{n:04d}" for n in rng.integers(0, 400, ORDERS)])
    cents = np.round(rng.gamma(2.0, 4000.0, ORDERS)).astype(np.int64) + 1
    write("orders", at, {"order_id": order, "customer": customer, "total": money(cents)})

    paid = rng.random(ORDERS) < 0.9
    paid_at = at + rng.integers(200_000, 25_000_000, ORDERS)
    short = rng.random(ORDERS) < 0.03
    paid_cents = np.where(short, (cents * rng.random(ORDERS)).astype(np.int64), cents)
    method = rng.choice(["card", "bank", "wallet"], ORDERS, p=[0.6, 0.25, 0.15])
    write(
        "payments", paid_at[paid], {"order_id": order[paid], "amount": money(paid_cents[paid]), "method": method[paid]}
    )

    shipped = paid & (rng.random(ORDERS) < 0.85)
    shipped_at = paid_at + rng.integers(1_000_000, 50_000_000, ORDERS)
    carrier = rng.choice(["north", "coast", "rail"], ORDERS)
    write("shipments", shipped_at[shipped], {"order_id": order[shipped], "carrier": carrier[shipped]})

    clicks = 20_000
    click_at = np.sort(rng.integers(0, SPAN_US, clicks))
    page = rng.choice(["home", "search", "item", "cart", "help"], clicks, p=[0.3, 0.25, 0.25, 0.15, 0.05])
    who = np.array([f"c-{n:04d}" for n in rng.integers(0, 400, clicks)])
    write("clicks", click_at, {"customer": who, "page": page}, disorder_us=1_050_000)


def money(cents: np.ndarray) -> pa.Array:
    """Return amounts as decimals with two digits after the point."""
    return pa.array([Decimal(int(c)).scaleb(-2) for c in cents], pa.decimal128(10, 2))


def write(name: str, at: np.ndarray, columns: dict[str, np.ndarray | pa.Array], disorder_us: int = 0) -> None:
    """Write one stream in the order it was recorded: by time, but for delays up to `disorder_us`."""
    delay = np.random.default_rng(len(at)).integers(0, disorder_us + 1, len(at))
    recorded = np.argsort(at + delay, kind="stable")
    ts = (START + at.astype("m8[us]"))[recorded]
    table = pa.table({"ts": pa.array(ts), **{n: pa.array(v).take(pa.array(recorded)) for n, v in columns.items()}})
    pq.write_table(table, HERE / f"{name}.parquet", compression="zstd")


if __name__ == "__main__":
    main()
