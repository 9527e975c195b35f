"""Alembic migrations. They must reproduce ``backend.db.tables`` exactly; the tests check it."""

# The newest revision, so that the API can tell its migration level without importing Alembic.
HEAD = "0006"
