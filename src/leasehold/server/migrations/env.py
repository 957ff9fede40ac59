"""Run by Alembic, on a connection that is within a transaction already (see `leasehold.server.migrating`)."""

from alembic import context

from leasehold.server.migrating import VERSION_TABLE
from leasehold.server.models import Row

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Row.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite changes a table by making a new one
)
context.run_migrations()
