"""Adopted queries on Spark: the tee that writes the journal, a streaming query for each version, the run."""
