"""
The service, killed at work.
"""
