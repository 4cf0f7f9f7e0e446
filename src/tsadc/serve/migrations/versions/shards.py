"""Divide the position of scoring among the shards of the entities."""

import sqlalchemy as sa
from alembic import op

revision = "shards"
down_revision = "refresh"
branch_labels = None
depends_on = None

SHARDS = 16


def upgrade() -> None:
    """Let each shard begin where scoring as a whole has come."""
    progress = sa.table("progress", sa.column("name", sa.String), sa.column("value", sa.BigInteger))
    connection = op.get_bind()
    scored = connection.scalar(sa.select(progress.c.value).where(progress.c.name == "scored"))
    if scored is not None:
        positions = [{"name": f"scored {shard}", "value": scored} for shard in range(SHARDS)]
        connection.execute(sa.insert(progress), positions)
    connection.execute(sa.delete(progress).where(progress.c.name.in_(["scored", "awake", "looked"])))
