"""What all studies share: their contract, their data, runs that are followed, the simulated processor, pictures."""
