"""The command line and what it prints. No engine logic."""
