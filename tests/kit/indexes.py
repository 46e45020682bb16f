"""
Which partial index serves which statement, on every database.
"""

SERVED_BY = [
    ("due 1", "ix_uns_due", 3),
    ("due 3", "ix_uns_due", 3),
    ("due without", "ix_uns_due", 3),
    ("overdue", "ix_uns_deadline", 1),
    ("dead_letters", "ix_uns_dead_letters", 1),
    ("callbacks_due", "ix_uns_callbacks", 1),
    ("callbacks_due", "ix_uns_callback_tokens", 1),
    ("callbacks_exhausted", "ix_uns_callbacks", 1),
    ("followers_of", "ix_uns_followers", 1),
    ("follower_count", "ix_uns_followers", 1),
    ("sweep", "ix_uns_followers", 1),
    ("sweep_relink", "ix_uns_followers", 1),
    ("sweep_events", "ix_uns_followers", 1),
    ("line_into", "ix_uns_successor", 1),
    ("copies_of_line", "ix_uns_successor", 1),
]
"""A statement's name, the index, and how often one run of the statement searches it."""
