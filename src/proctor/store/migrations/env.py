"""Runs migrations on the connection that the record was opened with, inside its transaction."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transactional_ddl=False)  # the transaction is the caller's
context.run_migrations()
