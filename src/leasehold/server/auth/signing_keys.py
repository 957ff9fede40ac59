"""The secret that tokens are signed with: given by a setting, or made once and kept beside the data."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasehold.errors import InvalidRequest
from leasehold.valkey.embedded.data_dir import open_data_dir

if TYPE_CHECKING:
    from pathlib import Path

SECRET_FILE = "secret.key"  # noqa: S105 - its name
_BYTES = 32


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys for each purpose, from one secret. Whoever knows one of them learns nothing about the others."""

    secret: bytes = field(repr=False)

    def of(self, purpose: str) -> bytes:
        """The key for ``purpose``: the same in every worker and after every restart, 32 bytes."""
        return hmac.digest(self.secret, purpose.encode(), hashlib.sha256)


def load_keys(secret: str | None, data_dir: Path) -> Keys:
    """The keys of ``secret``; if there is none, of the file in ``data_dir``, which is made if it is missing.

    Any number of processes may ask at once: all get the same. `InvalidRequest` if the file can be read by others,
    or is not a secret.
    """
    if secret is not None:
        return Keys(secret.encode())
    path = open_data_dir(data_dir).root / SECRET_FILE
    if not path.exists():
        _make(path)
    return Keys(_read(path))


def _make(path: Path) -> None:
    """Under another name first, and then named for good unless somebody was faster: nobody reads half a secret."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise InvalidRequest(f"the secret {str(path)!r} cannot be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    try:
        with path.open() as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the secret {str(path)!r} cannot be read: {error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidRequest(
            f"the secret {str(path)!r} is open to others: chmod 600 it, or delete it to have a new one"
        )
    if len(text) < _BYTES:
        raise InvalidRequest(f"the secret {str(path)!r} is too short: delete it to have a new one")
    return text.encode()
