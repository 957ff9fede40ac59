"""The session's id and its secret: where they come from, and where a new secret is kept.

Never from an argument: everybody on the machine can read those.
"""

from __future__ import annotations

import getpass
import os
import re
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.cli.errors import CommandError
from leasehold.cli.exit_codes import Exit
from leasehold.files.sessions.credentials import check_session_id
from leasehold.valkey.embedded import default_data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_FOR_IDS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Whose:
    """A session's id and secret; ``secret_file`` is None if the secret was in the environment."""

    session: str
    secret: str = field(repr=False)
    secret_file: Path | None


def find_session(
    session: str | None, secret_file: Path | None, environ: Mapping[str, str], *, make: bool
) -> Whose:
    """What the options say, else the environment, else the user's own; ``make`` makes a secret where there is none.

    `InvalidRequest` for an id that is none, before anything is read or made for it.
    """
    session = check_session_id(session or environ.get("LEASEHOLD_SESSION") or default_session())
    if secret_file is None and (secret := environ.get("LEASEHOLD_SESSION_SECRET")):
        return Whose(session, secret, None)
    if secret_file is None and (named := environ.get("LEASEHOLD_SESSION_SECRET_FILE")):
        secret_file = Path(named)
    if secret_file is None:
        data_dir = default_data_dir()
        secret_file = data_dir / "sessions" / f"{session}.secret"
        if make:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            secret_file.parent.mkdir(mode=0o700, exist_ok=True)
    return Whose(session, _read_or_make(session, secret_file, make=make), secret_file)


def default_session() -> str:
    """``cli-USER-HOST``: the same each time, so that what one command locks the next can unlock."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        user = str(os.getuid())
    return _NOT_FOR_IDS.sub("-", f"cli-{user}-{socket.gethostname()}")[:128]


def _read_or_make(session: str, path: Path, *, make: bool) -> str:
    try:
        return _read(path)
    except FileNotFoundError:
        if not make:
            raise CommandError(
                Exit.USAGE,
                "no_secret",
                f"there is no secret for session {session!r} at {str(path)!r}, and without it nothing can be done "
                "for the session",
                session=session,
            ) from None
    _make(path)
    return _read(path)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                raise CommandError(
                    Exit.USAGE,
                    "secret_exposed",
                    f"others can read the secret in {str(path)!r}: chmod 600 it, or make a new session",
                )
            secret = opened.read(1000).decode("ascii", "replace").strip()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CommandError(
            Exit.USAGE, "no_secret", f"the secret in {str(path)!r} cannot be read: {error.strerror}"
        ) from error
    if not secret:
        raise CommandError(Exit.USAGE, "no_secret", f"there is nothing in {str(path)!r}")
    return secret


def _make(path: Path) -> None:
    """Put a new secret there, whole or not at all, and never over one that somebody else has made meanwhile."""
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        opened = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(opened, f"{secrets.token_hex(32)}\n".encode())
            os.fsync(opened)
        finally:
            os.close(opened)
        with suppress(FileExistsError):
            path.hardlink_to(aside)
    except OSError as error:
        raise CommandError(
            Exit.USAGE, "no_secret", f"no secret can be kept in {str(path)!r}: {error.strerror}"
        ) from error
    finally:
        aside.unlink(missing_ok=True)
