"""Who pinned a resource that belongs to nobody.

Revision ID: dualsql_0006
Revises: dualsql_0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "dualsql_0006"
down_revision = "dualsql_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dualsql_resources", sa.Column("pinned_by", sa.String(64)))
    op.create_index("ix_dualsql_resources_pinned_by", "dualsql_resources", ["pinned_by"])


def downgrade() -> None:
    op.drop_index("ix_dualsql_resources_pinned_by", "dualsql_resources")
    op.drop_column("dualsql_resources", "pinned_by")
