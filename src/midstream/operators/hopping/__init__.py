"""Operators of hopping queries: each reads deltas or complete relations, and gives either."""
