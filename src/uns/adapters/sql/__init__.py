"""
The SQL stores: one schema and one transaction for SQLite (and, beside it, other dialects).
"""
