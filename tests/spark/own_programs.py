"""Streaming programs as people write them, and rewritten ones of the same meaning. None of it knows Midstream.

Two streams: orders (ts, k, v) and payments (ts, k, v).
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

Streams = dict[str, DataFrame]


def totals(spark: SparkSession, streams: Streams) -> DataFrame:
    """Sums per key and five seconds."""
    orders = streams["orders"].withWatermark("ts", "2 seconds")
    grouped = orders.groupBy(F.window("ts", "5 seconds").alias("w"), "k")
    return grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total")).select("w.start", "k", "n", "total")


def totals_rewritten(spark: SparkSession, streams: Streams) -> DataFrame:
    """The same by another plan: the two parities apart, counted by a sum of ones, in SQL."""
    orders = streams["orders"].withWatermark("ts", "2 seconds").withColumn("one", F.lit(1).cast("long"))
    grouped = orders.groupBy(F.window("ts", "5 seconds"), "k", (F.col("k") % 2).alias("parity"))
    summed = grouped.agg(F.sum("one").alias("n"), F.sum(F.col("v") + 1).alias("more"))
    return summed.selectExpr("window.start AS start", "k", "n", "more - n AS total")


def totals_wrong(spark: SparkSession, streams: Streams) -> DataFrame:
    """Nearly the same: one key is counted twice."""
    right = totals(spark, streams)
    return right.withColumn("n", F.when(F.col("k") == 1, F.col("n") * 2).otherwise(F.col("n")))


def totals_crashing(spark: SparkSession, streams: Streams) -> DataFrame:
    """Fails on a row."""
    fail = F.udf(_fail, "long")
    return totals(spark, streams).withColumn("total", fail("total"))


def _fail(value: int) -> int:
    raise ValueError("no total is good enough")


def totals_hanging(spark: SparkSession, streams: Streams) -> DataFrame:
    """Never comes to an end."""
    hang = F.udf(_hang, "long")
    return totals(spark, streams).withColumn("total", hang("total"))


def _hang(value: int) -> int:
    import time

    time.sleep(3600)
    return value


def no_stream(spark: Any, streams: Streams) -> Any:
    """A program that reads a stream of another name."""
    return streams["oders"].select("k")


def no_program(spark: SparkSession, streams: Streams) -> DataFrame:
    """Cannot be built."""
    return streams["orders"].select("no_such_column")


def wider(spark: SparkSession, streams: Streams) -> DataFrame:
    """Another meaning: windows of ten seconds."""
    orders = streams["orders"].withWatermark("ts", "2 seconds")
    grouped = orders.groupBy(F.window("ts", "10 seconds").alias("w"), "k")
    return grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total")).select("w.start", "k", "n", "total")


def paid(spark: SparkSession, streams: Streams) -> DataFrame:
    """Orders with the payments of the three seconds after them."""
    o = streams["orders"].withWatermark("ts", "2 seconds").alias("o")
    p = streams["payments"].withWatermark("ts", "2 seconds").alias("p")
    near = F.expr("o.k = p.k AND p.ts >= o.ts AND p.ts <= o.ts + INTERVAL 3 SECONDS")
    return o.join(p, near).selectExpr("o.k AS k", "o.v AS ordered", "p.v AS paid")


def paid_rewritten(spark: SparkSession, streams: Streams) -> DataFrame:
    """The same from the other side."""
    p = streams["payments"].withColumnsRenamed({"ts": "at", "k": "key", "v": "paid"}).withWatermark("at", "2 seconds")
    o = streams["orders"].withColumnRenamed("v", "ordered").withWatermark("ts", "2 seconds")
    near = (F.col("key") == F.col("k")) & F.expr("ts BETWEEN at - INTERVAL 3 SECONDS AND at")
    return p.join(o, near).select("k", "ordered", "paid")


class Counting(StatefulProcessor):
    """Numbers the rows of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "n LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timers: Any) -> Iterator[Row]:
        held = self.seen.get()
        n = held[0] if held is not None else 0
        for _ in rows:
            n += 1
            yield Row(k=key[0], n=n)
        self.seen.update((n,))

    def close(self) -> None:
        pass


class CountingDown(Counting):
    """The same, kept the other way round."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timers: Any) -> Iterator[Row]:
        held = self.seen.get()
        left = held[0] if held is not None else 0
        count = sum(1 for _ in rows)
        for n in range(count, 0, -1):
            yield Row(k=key[0], n=n - left)
        self.seen.update((left - count,))


def numbered(spark: SparkSession, streams: Streams) -> DataFrame:
    """The rows of each key, numbered."""
    return streams["orders"].groupBy("k").transformWithState(Counting(), "k LONG, n LONG", "Append", "None")


def numbered_rewritten(spark: SparkSession, streams: Streams) -> DataFrame:
    """The same with another state."""
    return streams["orders"].groupBy("k").transformWithState(CountingDown(), "k LONG, n LONG", "Append", "None")


def _largest(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"k": rows["k"] * 10, "v": rows["v"].astype("int64")})


def _largest_rewritten(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(k=rows.k * 9 + rows.k)[["k", "v"]]


def scaled(spark: SparkSession, streams: Streams) -> DataFrame:
    """Rows through pandas, key by key."""
    return streams["orders"].groupBy("k").applyInPandas(_largest, "k LONG, v LONG")


def scaled_rewritten(spark: SparkSession, streams: Streams) -> DataFrame:
    """The same by another function."""
    return streams["orders"].groupBy("k").applyInPandas(_largest_rewritten, "k LONG, v LONG")


def busiest(spark: SparkSession, streams: Streams) -> DataFrame:
    """Sums per key and two seconds, and of these the largest in six seconds: two windows one above the other."""
    orders = streams["orders"].withWatermark("ts", "2 seconds")
    small = orders.groupBy(F.window("ts", "2 seconds"), "k").agg(F.sum("v").alias("total"))
    large = small.groupBy(F.window(F.window_time("window"), "6 seconds").alias("w"))
    return large.agg(F.max("total").alias("most"), F.count("*").alias("n")).select("w.start", "most", "n")


def busiest_rewritten(spark: SparkSession, streams: Streams) -> DataFrame:
    """The same with one more column in the state, windows over windows without their time."""
    orders = streams["orders"].withWatermark("ts", "2 seconds")
    small = orders.groupBy("k", F.window("ts", "2 seconds").alias("a")).agg(
        F.max("v").alias("unused"), (F.sum(F.col("v") + 1) - F.count("v")).alias("total")
    )
    large = small.groupBy(F.window("a", "6 seconds").alias("w"))
    return large.agg(F.count("total").alias("n"), F.max("total").alias("most")).select("w.start", "most", "n")


def once(spark: SparkSession, streams: Streams) -> DataFrame:
    """Each pair of a key and a number once, for ever."""
    return streams["orders"].selectExpr("k", "v % 50 AS n").dropDuplicates()


def once_rewritten(spark: SparkSession, streams: Streams) -> DataFrame:
    """The same by a text that stands for both."""
    named = streams["orders"].selectExpr("k", "v % 50 AS n", "concat_ws('/', k, v % 50) AS both")
    return named.dropDuplicates(["both"]).drop("both")


def sessions(spark: SparkSession, streams: Streams) -> DataFrame:
    """How long keys are busy without a pause, and how many rows they have."""
    orders = streams["orders"].withWatermark("ts", "2 seconds")
    grouped = orders.groupBy(F.session_window("ts", "100 milliseconds").alias("w"), "k").count()
    return grouped.select("k", "w.end", "count")


def sessions_rewritten(spark: SparkSession, streams: Streams) -> DataFrame:
    """The same with another state."""
    orders = streams["orders"].withWatermark("ts", "2 seconds").withColumn("one", F.lit(1).cast("long"))
    grouped = orders.groupBy("k", F.session_window("ts", "100 milliseconds"))
    return grouped.agg(F.sum("one").alias("count"), F.max("v")).select("k", "session_window.end", "count")
