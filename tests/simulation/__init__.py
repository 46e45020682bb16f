"""
The simulation: the real loops over the memory store, in virtual time, under one seed.
"""
