"""Reads the session's id and secret from options and environment, and creates a secret file.

The secret is never an argument, because every user of the machine can read those.
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

from leasehold.cli.errors import CliError
from leasehold.cli.exit_codes import ExitCode
from leasehold.files.sessions.credentials import check_session_id
from leasehold.valkey.embedded import default_data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECRET = "LEASEHOLD_SESSION_SECRET"  # noqa: S105 - its name
_INVALID_IN_IDS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class SessionCredentials:
    """A session's id and secret; ``secret_file`` is None if the secret was in the environment."""

    session: str
    secret: str = field(repr=False)
    secret_file: Path | None


def find_credentials(
    session: str | None, secret_file: Path | None, environ: Mapping[str, str], *, create: bool
) -> SessionCredentials:
    """The session of the options, else of the environment, else of the user; ``create`` makes a missing secret.

    `InvalidRequest` for an invalid id, before any file is read or created for it.
    """
    session = check_session_id(session or environ.get("LEASEHOLD_SESSION") or default_session())
    if secret_file is None and (secret := environ.get(_SECRET)):
        return SessionCredentials(session, secret, None)
    if secret_file is None and (named := environ.get("LEASEHOLD_SESSION_SECRET_FILE")):
        secret_file = Path(named)
    if secret_file is None:
        data_dir = default_data_dir()
        secret_file = data_dir / "sessions" / f"{session}.secret"
        if create:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            secret_file.parent.mkdir(mode=0o700, exist_ok=True)
    return SessionCredentials(session, _read_or_create(session, secret_file, create=create), secret_file)


def without_secret(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a command that runs while a file is locked: it must not act for the session."""
    return {name: value for name, value in environ.items() if name != _SECRET}


def default_session() -> str:
    """``cli-USER-HOST``: the same each time, so that the next command can unlock the files of this one."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        user = str(os.getuid())
    return _INVALID_IN_IDS.sub("-", f"cli-{user}-{socket.gethostname()}")[:128]


def _no_secret(message: str, **details: str) -> CliError:
    return CliError(ExitCode.USAGE, "no_secret", message, **details)


def _read_or_create(session: str, path: Path, *, create: bool) -> str:
    try:
        return _read(path)
    except FileNotFoundError:
        if not create:
            raise _no_secret(
                f"session {session!r} has no secret: {str(path)!r} does not exist; "
                "leasehold files lock creates it, or name another one with --secret-file",
                session=session,
            ) from None
    _create(path)
    return _read(path)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                raise CliError(
                    ExitCode.USAGE,
                    "secret_exposed",
                    f"other users can read the secret in {str(path)!r}: chmod 600 it, or start a new session",
                )
            secret = opened.read(1000).decode("ascii", "replace").strip()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _no_secret(f"the secret in {str(path)!r} cannot be read: {error.strerror}") from error
    if not secret:
        raise _no_secret(f"the secret file {str(path)!r} is empty")
    return secret


def _create(path: Path) -> None:
    """Create the secret file atomically, and never over one that another process has created in between."""
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
        raise _no_secret(f"the secret file {str(path)!r} cannot be created: {error.strerror}") from error
    finally:
        aside.unlink(missing_ok=True)
