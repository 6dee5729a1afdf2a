"""What the benchmarks of the adaptive loop share: streams that drift, and those who run a join over them."""
