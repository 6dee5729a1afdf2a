"""Pure functions over flat arrays, compiled by Numba. They know no other room.

Entries, the rows of every join state and of every batch that flows between joins, are rows of one int64 matrix:

    column   0     1        2          3                        4 ...            4 + components ...
             key   latest   deadline   link (time in a batch)   row numbers      comparison values
"""
