"""The migrations of the record from one format to the next; Alembic runs them when an older record is opened."""
