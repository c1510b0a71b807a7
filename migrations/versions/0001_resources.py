"""Make the table of resources.

Revision ID: dualsql_0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "dualsql_0001"
down_revision = None
# What an application that mounts these migrations calls them: `alembic upgrade dualsql@head`.
branch_labels = ("dualsql",)
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dualsql_resources",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.Column("columns", sa.Text, nullable=False),
        sa.Column("total_count", sa.BigInteger),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("lifetime_seconds", sa.Double, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("tenant", sa.Text),
        sa.Column("sample", sa.Text),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("access_count", sa.BigInteger, nullable=False),
        sa.Column("last_accessed_at", sa.DateTime(timezone=True)),
    )
    op.create_index("ix_dualsql_resources_expires_at", "dualsql_resources", ["expires_at"])
    op.create_index("ix_dualsql_resources_tenant_owner", "dualsql_resources", ["tenant", "owner"])


def downgrade() -> None:
    op.drop_table("dualsql_resources")
