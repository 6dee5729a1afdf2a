"""Host 1, this process: recorded streams, scenarios, files, reports."""
