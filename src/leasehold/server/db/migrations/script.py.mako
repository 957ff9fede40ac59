"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """There is no way back but a backup: an older Leasehold does not open a newer database."""
    ${upgrades if upgrades else "pass"}
