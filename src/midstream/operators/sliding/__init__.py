"""Sliding joins: results are row numbers, each found once, by its latest row."""
