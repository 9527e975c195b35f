"""What a result is, a schedule or an alternative, and how it did among all of its batch size."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "job_result",
        sa.Column("kind", sa.Text(), server_default="schedule", nullable=False),
    )
    op.add_column("job_result", sa.Column("place", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("job_result", "place")
    op.drop_column("job_result", "kind")
