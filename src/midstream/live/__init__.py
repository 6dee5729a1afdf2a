"""A query that runs live: its checkpoint, control log, versions and results. Needs a host that brings micro-batches."""
