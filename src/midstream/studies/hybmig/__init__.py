"""Studies of HybMig: migration of nested-loop joins under a processor of given speed."""
