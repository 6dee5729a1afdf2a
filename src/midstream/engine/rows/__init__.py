"""Rows of a micro-batch: flat arrays, their numbers, and which bucket each goes to."""
