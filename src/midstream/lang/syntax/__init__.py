"""Syntax: the SQL dialect and its clauses that sqlglot does not read, with places for errors."""
