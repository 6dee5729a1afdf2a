"""The host on Spark: the same engine as exactly-once Structured Streaming. The only place that imports PySpark.

streaming DataFrames ──▶ pack (Arrow blobs by bucket) ──▶ processor (hosts the operators) ──▶ unpack ──▶ sink
"""
