"""Bind: a sqlglot tree and what is declared to a validated query."""
