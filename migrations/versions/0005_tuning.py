"""Jobs that tune kernels: what they tune, their rounds, trials and best kernels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tuning_kernel",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("latency_ms", sa.Double(), nullable=False),
        sa.Column("wall_ms", sa.Double(), nullable=False),
        sa.Column("tir", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.Column("ranked", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("storage_key", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_tuning_kernel_job_id_job"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "program", name=op.f("pk_tuning_kernel")),
    )
    op.create_table(
        "tuning_program",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("units", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("gflops", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_tuning_program_job_id_job"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "program", name=op.f("pk_tuning_program")),
    )
    op.create_table(
        "tuning_round",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.Column("degree_of_parallelism", sa.Integer(), nullable=False),
        sa.Column("lower", sa.Integer(), nullable=True),
        sa.Column("upper", sa.Integer(), nullable=True),
        sa.Column("timeout_s", sa.Double(), nullable=False),
        sa.Column("successes", sa.Integer(), nullable=False),
        sa.Column("failures", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("timeouts", sa.Integer(), nullable=False),
        sa.Column("outliers", sa.Integer(), nullable=False),
        sa.Column("remeasured", sa.Integer(), nullable=False),
        sa.Column("due_to_parallelism", sa.Integer(), nullable=False),
        sa.Column("delta_mean", sa.Double(), nullable=True),
        sa.Column("started_s", sa.Double(), nullable=False),
        sa.Column("ended_s", sa.Double(), nullable=False),
        sa.Column("cpu_share", sa.Double(), nullable=True),
        sa.Column("best_ms", sa.Double(), nullable=True),
        sa.Column("react", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("spans", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_tuning_round_job_id_job"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_tuning_round")),
    )
    op.create_table(
        "tuning_run",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("uncovered", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("covered", sa.Double(), nullable=True),
        sa.Column("ended", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_tuning_run_job_id_job"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_tuning_run")),
    )
    op.create_table(
        "tuning_trial",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("trial", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.Column("latency_ms", sa.Double(), nullable=True),
        sa.Column("device_ms", sa.Double(), nullable=True),
        sa.Column("wall_ms", sa.Double(), nullable=True),
        sa.Column("alone_ms", sa.Double(), nullable=True),
        sa.Column("cycles", sa.Double(), nullable=True),
        sa.Column("instructions", sa.Double(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("build_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_tuning_trial_job_id_job"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "trial", name=op.f("pk_tuning_trial")),
    )


def downgrade() -> None:
    op.drop_table("tuning_trial")
    op.drop_table("tuning_run")
    op.drop_table("tuning_round")
    op.drop_table("tuning_program")
    op.drop_table("tuning_kernel")
