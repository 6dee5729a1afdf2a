"""Results: what buckets emit, and where it meets and leaves."""
