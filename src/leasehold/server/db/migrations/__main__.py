"""``python -m leasehold.server.db.migrations "what it does"``: generate a new migration.

It contains the difference between the models and the migrations so far, to be reviewed and completed by hand.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from leasehold.server.db.migrate import alembic_config, upgrade


def main(message: str) -> None:
    """Write the migration beside the others."""
    with tempfile.TemporaryDirectory() as directory:
        engine = create_engine(f"sqlite:///{Path(directory) / 'empty.sqlite'}")
        with engine.connect() as connection:
            upgrade(connection)
            config = alembic_config(connection)
            config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
            number = len(list(ScriptDirectory.from_config(config).walk_revisions())) + 1
            command.revision(config, message, autogenerate=True, rev_id=f"{number:04}")
        engine.dispose()


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
