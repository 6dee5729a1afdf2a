"""What the migration benchmarks share: their streams, runs stopped at a moment, verdicts."""
