"""What a job is for, and the facts of imported graphs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("purpose", sa.Text(), server_default="tune", nullable=False))
    op.create_index("ix_job_purpose_created", "job", ["purpose", "created_at", "id"], unique=False)
    op.create_table(
        "model_graph",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("upload_id", sa.Uuid(), nullable=True),
        sa.Column("batch_size", sa.Integer(), nullable=False),
        sa.Column("sequence_length", sa.Integer(), nullable=True),
        sa.Column("granularity", sa.Text(), nullable=False),
        sa.Column("graph_hash", sa.Text(), nullable=False),
        sa.Column("facts", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["upload_id"],
            ["upload.id"],
            name=op.f("fk_model_graph_upload_id_upload"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_graph")),
        sa.UniqueConstraint(
            "model",
            "batch_size",
            "sequence_length",
            "granularity",
            name="uq_model_graph_choice",
            postgresql_nulls_not_distinct=True,
        ),
    )


def downgrade() -> None:
    op.drop_table("model_graph")
    op.drop_index("ix_job_purpose_created", table_name="job")
    op.drop_column("job", "purpose")
