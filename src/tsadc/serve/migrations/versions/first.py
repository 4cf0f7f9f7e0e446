"""Create the tables of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "first"
down_revision = None
branch_labels = None
depends_on = None

LONG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "entities",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("model", sa.String(length=60), nullable=False),
        sa.Column("first_time", LONG, nullable=False),
        sa.Column("last_time", LONG, nullable=True),
        sa.Column("last_seen", sa.Float(), nullable=True),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("threshold", sa.Float(), nullable=True),
        sa.Column("severity", sa.Float(), nullable=True),
        sa.Column("anomalous", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("variables", sa.JSON(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("changed", LONG, server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_index("ix_entities_changed", "entities", ["changed"], unique=False)
    op.create_table(
        "models",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=200), nullable=False),
        sa.Column("variables", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("until", sa.Float(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("models_name_state", "models", ["name", "state"], unique=False)
    op.create_table(
        "mutes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("entity", sa.String(length=200), nullable=False),
        sa.Column("variable", sa.String(length=200), nullable=False),
        sa.Column("until", sa.Float(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("by", sa.String(length=200), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("writer", sa.String(length=60), nullable=False),
        sa.Column("episode", sa.String(length=300), nullable=False),
        sa.Column("transition", sa.String(length=10), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("event", sa.JSON(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_try", sa.Float(), server_default="0", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("delivered", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("writer", "episode", "number", name="outbox_event"),
    )
    op.create_index("outbox_writer_delivered", "outbox", ["writer", "delivered", "id"], unique=False)
    op.create_table(
        "positions",
        sa.Column("reader", sa.String(length=60), nullable=False),
        sa.Column("key", sa.String(length=500), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("reader", "key"),
    )
    op.create_table(
        "progress",
        sa.Column("name", sa.String(length=20), nullable=False),
        sa.Column("value", LONG, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "episodes",
        sa.Column("id", sa.String(length=300), nullable=False),
        sa.Column("interval", sa.String(length=300), nullable=False),
        sa.Column("entity", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=60), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("start", LONG, nullable=False),
        sa.Column("end", LONG, nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("severity", sa.Float(), nullable=False),
        sa.Column("alarm_score", sa.Float(), nullable=False),
        sa.Column("alarm_severity", sa.Float(), nullable=False),
        sa.Column("alarm_time", LONG, nullable=False),
        sa.Column("present_score", sa.Float(), nullable=True),
        sa.Column("opened", sa.Float(), nullable=False),
        sa.Column("resolved", sa.Float(), nullable=True),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("announced", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(length=60), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("evidence", sa.String(length=200), nullable=False),
        sa.Column("variables", sa.JSON(), nullable=False),
        sa.Column("return_period", sa.Float(), nullable=True),
        sa.Column("withdrawn", sa.Boolean(), nullable=False),
        sa.Column("muted", sa.Boolean(), nullable=False),
        sa.Column("acknowledged", sa.Float(), nullable=True),
        sa.Column("acknowledged_by", sa.String(length=200), nullable=True),
        sa.Column("verdict", sa.String(length=10), nullable=True),
        sa.Column("verdict_note", sa.Text(), nullable=True),
        sa.Column("verdict_by", sa.String(length=200), nullable=True),
        sa.Column("verdict_time", sa.Float(), nullable=True),
        sa.Column("changed", LONG, nullable=False),
        sa.ForeignKeyConstraint(
            ["entity"],
            ["entities.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("episodes_entity_interval", "episodes", ["entity", "interval"], unique=False)
    op.create_index("episodes_state_start", "episodes", ["state", "start"], unique=False)
    op.create_index("ix_episodes_changed", "episodes", ["changed"], unique=False)
    op.create_table(
        "pending",
        sa.Column("entity", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", LONG, autoincrement=False, nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entity"],
            ["entities.id"],
        ),
        sa.PrimaryKeyConstraint("entity", "time"),
    )
    op.create_index("ix_pending_since", "pending", ["since"], unique=False)
    op.create_table(
        "rows",
        sa.Column("sequence", LONG, autoincrement=False, nullable=False),
        sa.Column("part", LONG, nullable=False),
        sa.Column("entity", sa.Integer(), nullable=False),
        sa.Column("time", LONG, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entity"],
            ["entities.id"],
        ),
        sa.PrimaryKeyConstraint("sequence"),
        sa.UniqueConstraint("part", "entity", "time", name="rows_part_entity_time"),
    )
    op.create_table(
        "scores",
        sa.Column("entity", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("end", LONG, autoincrement=False, nullable=False),
        sa.Column("start", LONG, nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("threshold", sa.Float(), nullable=False),
        sa.Column("anomalous", sa.Boolean(), nullable=False),
        sa.Column("severity", sa.Float(), nullable=False),
        sa.Column("coverage", sa.Float(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entity"],
            ["entities.id"],
        ),
        sa.PrimaryKeyConstraint("entity", "end"),
    )
    op.create_table(
        "states",
        sa.Column("entity", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sequence", LONG, nullable=False),
        sa.Column("time", LONG, nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entity"],
            ["entities.id"],
        ),
        sa.PrimaryKeyConstraint("entity"),
    )
