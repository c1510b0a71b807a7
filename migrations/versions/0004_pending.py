"""Resources whose query still runs, or failed.

Revision ID: dualsql_0004
Revises: dualsql_0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "dualsql_0004"
down_revision = "dualsql_0003"
branch_labels = None
depends_on = None

_COLUMNS = {
    "status": sa.String(16),
    "pending_until": sa.DateTime(timezone=True),
    "failure": sa.Text(),
}


def upgrade() -> None:
    for name, kind in _COLUMNS.items():
        op.add_column("dualsql_resources", sa.Column(name, kind))
    op.create_index("ix_dualsql_resources_pending_until", "dualsql_resources", ["pending_until"])


def downgrade() -> None:
    # The release before would run the query of each, and wait for it.
    op.execute("DELETE FROM dualsql_resources WHERE status <> 'ready'")
    op.drop_index("ix_dualsql_resources_pending_until", "dualsql_resources")
    for name in reversed(_COLUMNS):
        op.drop_column("dualsql_resources", name)
