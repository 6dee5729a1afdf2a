"""A daemon for Spark's Python workers that has imported what they need before it forks them: they begin at once."""
