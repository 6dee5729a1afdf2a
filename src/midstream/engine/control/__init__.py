"""Control rows and the versions of a query."""
