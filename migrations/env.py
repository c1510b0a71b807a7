"""What Alembic runs. Nothing is decided here, `dualsql.store.migrations` does the work."""

from __future__ import annotations

from logging.config import fileConfig

from alembic import context

from dualsql.store.migrations import migrate

if context.config.config_file_name is not None:
    fileConfig(context.config.config_file_name, disable_existing_loggers=False)

migrate()
