"""Runs: what answers one version of a query in one bucket, one class per family, by one contract."""
