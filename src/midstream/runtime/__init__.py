"""The loop: sources, arrival order, sinks, reports, and the runtimes that drive the operators."""
