"""Deleted accounts, and the bytes stored for each document."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

# As `leasehold.server.documents.quota` counts.
_PER_ROW = 256


def upgrade() -> None:
    """There is no way back but a backup: an older Leasehold does not open a newer database."""
    op.add_column("users", sa.Column("deleted_at", sa.Double(), nullable=True))
    op.add_column("documents", sa.Column("stored_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    size = (
        "octet_length(content)"
        if op.get_bind().dialect.name == "postgresql"
        else "length(CAST(content AS BLOB))"
    )
    of_document = " + ".join(
        f"(SELECT COALESCE(SUM({size} + {_PER_ROW}), 0) FROM {table} WHERE document_id = documents.id)"  # noqa: S608 - constants
        for table in ("versions", "drafts")
    )
    op.drop_index("ix_documents_owner_id", "documents")
    op.create_index("ix_documents_owner_id_stored_bytes", "documents", ["owner_id", "stored_bytes"])
    op.execute(f"UPDATE documents SET stored_bytes = {of_document}")  # noqa: S608 - constants
