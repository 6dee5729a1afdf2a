"""Adopted queries: versions of a user's own streaming program behind one journal, one gate and one sink. No PySpark."""
