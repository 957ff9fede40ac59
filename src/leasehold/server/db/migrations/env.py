"""The environment that Alembic runs, on a connection within a transaction (see `leasehold.server.db.migrate`)."""

from alembic import context

from leasehold.server.db.migrate import VERSION_TABLE
from leasehold.server.db.models import Row

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Row.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite changes a table by creating a new one
)
context.run_migrations()
