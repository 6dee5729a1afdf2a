"""Ways from a running plan to another with the same meaning, one per file."""
