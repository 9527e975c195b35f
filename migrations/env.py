"""Alembic runs this file for every command; ``backend.db.migrate`` hands it a connection."""

from __future__ import annotations

from alembic import context

from backend.db.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    compare_type=True,
    compare_server_default=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
