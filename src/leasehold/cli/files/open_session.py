"""Opens the files and the session that the options of a command name."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.cli.files.secrets import SessionCredentials, find_credentials
from leasehold.files import FileSettings
from leasehold.files.blocking import FileLocks

if TYPE_CHECKING:
    from collections.abc import Generator

    from leasehold.cli.store_options import StoreOptions
    from leasehold.files.blocking import Session


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options that name the store, the files and the session."""

    store: StoreOptions
    root: Path | None
    project: str | None
    session: str | None = None
    secret_file: Path | None = None

    def credentials(self, *, create: bool) -> SessionCredentials:
        """The session's id and secret; ``create`` makes a secret if there is none yet."""
        return find_credentials(self.session, self.secret_file, os.environ, create=create)

    def file_options(self) -> dict[str, Any]:
        """The arguments of `FileLocks`."""
        project = self.project or os.environ.get("LEASEHOLD_PROJECT") or None
        root = self.root or os.environ.get("LEASEHOLD_ROOT") or (Path() if project else "/")
        return {
            "root": os.path.join(Path.cwd(), root),  # noqa: PTH118 - a Path would drop the dots after links
            "project": project,
            "settings": FileSettings.from_environment(os.environ),
        }

    @contextmanager
    def open_files(self) -> Generator[FileLocks]:
        """A client for file locks."""
        with self.store.connect_blocking() as locks:
            yield FileLocks(locks, **self.file_options())

    @contextmanager
    def open_session(self, *, create: bool = False) -> Generator[Session]:
        """The session. Its locks stay held after the block, until they are released or their ttl has passed."""
        credentials = self.credentials(create=create)
        with self.open_files() as files:
            yield files.session(credentials.session, secret=credentials.secret)


def absolute_path(path: str) -> str:
    """The path below the current directory. Not normalized, because ``..`` after a link is another directory."""
    return os.path.join(Path.cwd(), path) if path else path  # noqa: PTH118 - see above
