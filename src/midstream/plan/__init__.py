"""Immutable query meaning: expressions, windows, queries, join trees, plans, their text and their difference."""
