"""Conditions of a measurement, who implemented its operators, and resident warps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "job_result",
        sa.Column("provider", sa.Text(), server_default="aten", nullable=False),
    )
    for table, name, empty in (
        ("job_result", "environment", "{}"),
        ("timeline", "resident_warps", "[]"),
    ):
        kind = postgresql.JSONB(astext_type=sa.Text())
        op.add_column(table, sa.Column(name, kind, server_default=empty, nullable=False))


def downgrade() -> None:
    op.drop_column("timeline", "resident_warps")
    op.drop_column("job_result", "environment")
    op.drop_column("job_result", "provider")
