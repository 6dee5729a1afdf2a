"""Studies of the papers, one file each: they compute data on this engine, draw a picture and judge claims."""
