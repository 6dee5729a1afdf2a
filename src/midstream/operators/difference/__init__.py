"""Differences (EXCEPT) of sliding windows, as signed changes."""
