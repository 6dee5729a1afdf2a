"""Studies of distributed adaptive joins: plans that follow the rates of streams, on a simulated network."""
