"""
Signals between processes.
"""
