"""
The HTTP door.
"""
