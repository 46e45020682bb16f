"""
Pure decisions: rows and ``now`` in, a ``Decision`` out. A rule raises or returns; it never writes.
"""
