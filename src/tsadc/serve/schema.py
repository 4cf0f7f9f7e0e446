"""The tables of the store. `migrations/` creates and changes them; a test holds the two equal.

    table       one row per                       written by
    entities    entity                            ingest; scoring (its latest verdict; deletes what is forgotten)
    pending     row with values still to come     ingest
    rows        row                               ingest
    scores      verdict about an observation      scoring
    episodes    episode                           scoring; people (acknowledged, verdict)
    outbox      event for one writer              scoring; delivery
    states      entity                            scoring: its stream, and the sequence that it reflects
    mutes       mute                              people
    models      model that was or is in use       the service
    refreshes   refit of a model                  refresh
    proposals   new level that stays              refresh; people (accepted, refused)
    positions   reader and key                    readers
    progress    counter                           `scored N`: the sequence up to which the rows of shard N of the
                                                  entities are scored; `changed`; `awake N`, `looked N`: since when,
                                                  and until when, scoring process N has run;
                                                  `forgotten`: how many entities were deleted

Times of rows are nanoseconds since 1970 in UTC, times of the service are seconds. `changed` orders the changes of
entities and episodes for those who wait for them."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()
Long = BigInteger().with_variant(Integer, "sqlite")  # in SQLite, only INTEGER is the number of a row itself

entities = Table(
    "entities",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("model", String(60), nullable=False),
    Column("first_time", Long, nullable=False),
    Column("last_time", Long),
    Column("last_seen", Float),
    Column("score", Float),
    Column("threshold", Float),
    Column("severity", Float),
    Column("anomalous", Boolean, nullable=False, default=False, server_default="0"),
    Column("variables", JSON),
    Column("note", Text),
    Column("changed", Long, nullable=False, default=0, server_default="0", index=True),
)

rows = Table(
    "rows",
    metadata,
    Column("sequence", Long, primary_key=True, autoincrement=False),
    Column("part", Long, nullable=False),  # of the time, see `stored_rows.py`
    Column("entity", Integer, ForeignKey("entities.id"), nullable=False),
    Column("time", Long, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("part", "entity", "time", name="rows_part_entity_time"),
)

pending = Table(
    "pending",
    metadata,
    Column("entity", Integer, ForeignKey("entities.id"), primary_key=True, autoincrement=False),
    Column("time", Long, primary_key=True, autoincrement=False),
    Column("since", Float, nullable=False, index=True),
    Column("data", LargeBinary, nullable=False),
)

scores = Table(
    "scores",
    metadata,
    Column("entity", Integer, ForeignKey("entities.id"), primary_key=True, autoincrement=False),
    Column("end", Long, primary_key=True, autoincrement=False),
    Column("start", Long, nullable=False),
    Column("score", Float, nullable=False),
    Column("threshold", Float, nullable=False),
    Column("anomalous", Boolean, nullable=False),
    Column("severity", Float, nullable=False),
    Column("coverage", Float, nullable=False),
    Column("final", Boolean, nullable=False),
)

episodes = Table(
    "episodes",
    metadata,
    Column("id", String(300), primary_key=True),
    Column("interval", String(300), nullable=False),
    Column("entity", Integer, ForeignKey("entities.id"), nullable=False),
    Column("model", String(60), nullable=False),
    Column("state", String(10), nullable=False),
    Column("start", Long, nullable=False),
    Column("end", Long, nullable=False),
    Column("score", Float, nullable=False),
    Column("severity", Float, nullable=False),
    Column("alarm_score", Float, nullable=False),
    Column("alarm_severity", Float, nullable=False),
    Column("alarm_time", Long, nullable=False),
    Column("present_score", Float),
    Column("opened", Float, nullable=False),
    Column("resolved", Float),
    Column("events", Integer, nullable=False),
    Column("announced", Float, nullable=False),
    Column("kind", String(60), nullable=False),
    Column("reason", Text, nullable=False),
    Column("evidence", String(200), nullable=False),
    Column("variables", JSON, nullable=False),
    Column("return_period", Float),
    Column("withdrawn", Boolean, nullable=False),
    Column("muted", Boolean, nullable=False),
    Column("acknowledged", Float),
    Column("acknowledged_by", String(200)),
    Column("verdict", String(10)),
    Column("verdict_note", Text),
    Column("verdict_by", String(200)),
    Column("verdict_time", Float),
    Column("changed", Long, nullable=False, index=True),
    Index("episodes_entity_interval", "entity", "interval"),
    Index("episodes_state_start", "state", "start"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("writer", String(60), nullable=False),
    Column("episode", String(300), nullable=False),
    Column("transition", String(10), nullable=False),
    Column("number", Integer, nullable=False),
    Column("event", JSON, nullable=False),
    Column("created", Float, nullable=False),
    Column("attempts", Integer, nullable=False, default=0, server_default="0"),
    Column("next_try", Float, nullable=False, default=0.0, server_default="0"),
    Column("error", Text),
    Column("delivered", Float),
    UniqueConstraint("writer", "episode", "number", name="outbox_event"),
    Index("outbox_writer_delivered", "writer", "delivered", "id"),
)

states = Table(
    "states",
    metadata,
    Column("entity", Integer, ForeignKey("entities.id"), primary_key=True, autoincrement=False),
    Column("sequence", Long, nullable=False),
    Column("time", Long, nullable=False),
    Column("model", String(200), nullable=False),
    Column("data", LargeBinary, nullable=False),
)

mutes = Table(
    "mutes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("entity", String(200), nullable=False),
    Column("variable", String(200), nullable=False),
    Column("until", Float),
    Column("note", Text, nullable=False),
    Column("by", String(200), nullable=False),
    Column("created", Float, nullable=False),
)

models = Table(
    "models",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(60), nullable=False),
    Column("folder", Text, nullable=False),
    Column("digest", String(200), nullable=False),
    Column("variables", JSON, nullable=False),
    Column("state", String(10), nullable=False),
    Column("since", Float, nullable=False),
    Column("until", Float),
    Column("note", Text, nullable=False),
    Index("models_name_state", "name", "state"),
)

refreshes = Table(
    "refreshes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("model", String(60), nullable=False, index=True),
    Column("state", String(10), nullable=False),
    Column("started", Float, nullable=False),
    Column("finished", Float),
    Column("comparison", JSON, nullable=False),
    Column("note", Text, nullable=False),
)

proposals = Table(
    "proposals",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("entity", Integer, ForeignKey("entities.id"), nullable=False, index=True),
    Column("state", String(10), nullable=False),
    Column("lasting", Boolean, nullable=False),
    Column("since", Long, nullable=False),
    Column("above", Integer, nullable=False),
    Column("observations", Integer, nullable=False),
    Column("variables", JSON, nullable=False),
    Column("created", Float, nullable=False),
    Column("decided", Float),
    Column("by", String(200), nullable=False),
)

positions = Table(
    "positions",
    metadata,
    Column("reader", String(60), primary_key=True),
    Column("key", String(500), primary_key=True),
    Column("value", Text, nullable=False),
)

progress = Table(
    "progress",
    metadata,
    Column("name", String(20), primary_key=True),
    Column("value", Long, nullable=False),
)
