"""Studies of JISC: just-in-time migration of hash joins."""
