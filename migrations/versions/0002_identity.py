"""Sizes and an index for listings and quotas; the table of links.

Revision ID: dualsql_0002
Revises: dualsql_0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "dualsql_0002"
down_revision = "dualsql_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "dualsql_resources", sa.Column("size_bytes", sa.BigInteger, nullable=False, server_default="0")
    )
    op.execute(
        "UPDATE dualsql_resources SET size_bytes = length(document) + length(columns) + length(metadata)"
        " + coalesce(length(sample), 0)"
    )
    op.drop_index("ix_dualsql_resources_tenant_owner", "dualsql_resources")
    op.create_index(
        "ix_dualsql_resources_owner", "dualsql_resources", ["owner", "tenant", "created_at", "id"]
    )
    op.create_table(
        "dualsql_links",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("resource_id", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_dualsql_links_resource_id", "dualsql_links", ["resource_id"])
    op.create_index("ix_dualsql_links_expires_at", "dualsql_links", ["expires_at"])


def downgrade() -> None:
    op.drop_table("dualsql_links")
    op.drop_index("ix_dualsql_resources_owner", "dualsql_resources")
    op.create_index("ix_dualsql_resources_tenant_owner", "dualsql_resources", ["tenant", "owner"])
    op.drop_column("dualsql_resources", "size_bytes")
