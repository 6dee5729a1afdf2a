"""SQL text and Python builder to validated queries: the only room that knows sqlglot."""
