"""The rows of streams: windows over them, and the stores that hold their columns by row number."""
