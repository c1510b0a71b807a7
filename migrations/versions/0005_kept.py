"""Where the rows of a resource are kept.

Revision ID: dualsql_0005
Revises: dualsql_0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "dualsql_0005"
down_revision = "dualsql_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dualsql_resources", sa.Column("kept", sa.Text()))


def downgrade() -> None:
    # The release before reads every result from its database.
    op.drop_column("dualsql_resources", "kept")
