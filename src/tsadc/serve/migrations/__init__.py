"""Changes of the tables of the store from version to version, in the form that Alembic runs."""
