"""
What Alembic runs: the migrations, on the connection and in the transaction of ``migrate``.
"""

from __future__ import annotations

from alembic import context

from uns.adapters.sql.migrate import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
