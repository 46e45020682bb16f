"""
What tests share: builders, stores, channels that fail on purpose, servers.
"""
