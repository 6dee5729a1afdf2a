"""The systems of `midstream bench peers`: one file each, started as its own process with a job to do."""
