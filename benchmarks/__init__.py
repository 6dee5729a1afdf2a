"""Benchmarks: `midstream bench NAME`. One file, one benchmark; ratios are measured in one run on the same data."""
