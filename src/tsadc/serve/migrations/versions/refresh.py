"""Add refits of models, and proposals of a new normal."""

import sqlalchemy as sa
from alembic import op

revision = "refresh"
down_revision = "first"
branch_labels = None
depends_on = None

LONG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "refreshes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=60), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("finished", sa.Float(), nullable=True),
        sa.Column("comparison", sa.JSON(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_refreshes_model", "refreshes", ["model"], unique=False)
    op.create_table(
        "proposals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("entity", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("lasting", sa.Boolean(), nullable=False),
        sa.Column("since", LONG, nullable=False),
        sa.Column("above", sa.Integer(), nullable=False),
        sa.Column("observations", sa.Integer(), nullable=False),
        sa.Column("variables", sa.JSON(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("decided", sa.Float(), nullable=True),
        sa.Column("by", sa.String(length=200), nullable=False),
        sa.ForeignKeyConstraint(["entity"], ["entities.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_proposals_entity", "proposals", ["entity"], unique=False)
