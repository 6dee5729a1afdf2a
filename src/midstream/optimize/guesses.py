"""What is assumed when nobody knows better."""

COMPARED = 1 / 3
"""The part of all rows or pairs that pass a condition which is not an equality."""
DISTINCT = 100.0
"""Different values of an expression."""
ROWS_PER_S = 1000.0
"""Rows of a stream in a second."""
