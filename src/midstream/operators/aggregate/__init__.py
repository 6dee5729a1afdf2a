"""Aggregates over the instances of windows."""
