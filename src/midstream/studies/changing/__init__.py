"""Studies of changing queries: what each method loses, repeats, reorders, takes and delays."""
