"""Run the migrations on the connection that `Store` passes."""

from alembic import context

from tsadc.serve.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
