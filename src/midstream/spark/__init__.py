"""The Spark runtime: the same queries as exactly-once Structured Streaming. The only place that imports PySpark.

streaming DataFrames ──▶ pack (Arrow blobs by bucket) ──▶ processor (hosts the operators) ──▶ unpack ──▶ sink
"""
