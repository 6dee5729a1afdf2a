"""Values of expressions over rows: evaluation, casts, comparisons, functions, codes."""
