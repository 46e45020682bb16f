"""
The reference adapter: a store and a pub/sub in plain dictionaries.
"""
