"""What a total is worth: exact, estimated, capped or none. NULL in the rows there are: exact, or not counted.

Revision ID: dualsql_0003
Revises: dualsql_0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "dualsql_0003"
down_revision = "dualsql_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dualsql_resources", sa.Column("total_count_kind", sa.String(16)))


def downgrade() -> None:
    # The release before would take any number for an exact one.
    op.execute("UPDATE dualsql_resources SET total_count = NULL WHERE total_count_kind <> 'exact'")
    op.drop_column("dualsql_resources", "total_count_kind")
