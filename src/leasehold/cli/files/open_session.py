"""From the options of a command to files and a session."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.cli.files.secrets import Whose, find_session
from leasehold.files import FileSettings
from leasehold.files.blocking import FileLocks

if TYPE_CHECKING:
    from collections.abc import Generator

    from leasehold.cli.store_options import Store
    from leasehold.files.blocking import Session


@dataclass(frozen=True, slots=True)
class Which:
    """Which store, which files, and who wants them."""

    store: Store
    root: Path | None
    project: str | None
    session: str | None = None
    secret_file: Path | None = None

    def whose(self, *, make: bool) -> Whose:
        """The session; ``make`` makes a secret for one that has none yet."""
        return find_session(self.session, self.secret_file, os.environ, make=make)

    def file_options(self) -> dict[str, Any]:
        """What `FileLocks` is to be made with."""
        project = self.project or os.environ.get("LEASEHOLD_PROJECT") or None
        root = self.root or os.environ.get("LEASEHOLD_ROOT") or (Path() if project else "/")
        return {
            "root": os.path.join(Path.cwd(), root),  # noqa: PTH118 - a Path would drop the dots after links
            "project": project,
            "settings": FileSettings.from_environment(os.environ),
        }

    @contextmanager
    def open_files(self) -> Generator[FileLocks]:
        """The locks of files."""
        with self.store.connect_blocking() as locks:
            yield FileLocks(locks, **self.file_options())

    @contextmanager
    def open_session(self, *, make: bool = False) -> Generator[Session]:
        """The session. What it holds stays held when this ends, until it is released or its ttl has passed."""
        whose = self.whose(make=make)
        with self.open_files() as files:
            yield files.session(whose.session, secret=whose.secret)


def spelled(path: str) -> str:
    """The path from the current directory, as a program would open it. Not tidied up: ``..`` after a link is another place."""
    return os.path.join(Path.cwd(), path) if path else path  # noqa: PTH118 - see above
