"""
Channel adapters, and the registry that names them.
"""
