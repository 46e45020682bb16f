"""
Async shells: they run plans, call channels and callbacks between them, and decide nothing.
"""
