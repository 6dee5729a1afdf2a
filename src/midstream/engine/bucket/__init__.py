"""Buckets: intake, versions, and what must last."""
