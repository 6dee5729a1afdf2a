"""Operators as arrays and a small description of how they hang together, and back."""
