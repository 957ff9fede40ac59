"""The signing keys of tokens: from a setting, or from a secret that is created once beside the data."""

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

    from pydantic import SecretStr

SECRET_FILE = "secret.key"  # noqa: S105 - its name
_BYTES = 32


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """One key per purpose, derived from one secret. A key reveals nothing about the others."""

    secret: bytes = field(repr=False)

    def of(self, purpose: str) -> bytes:
        """The key for ``purpose``: the same in every worker and after every restart, 32 bytes."""
        return hmac.digest(self.secret, purpose.encode(), hashlib.sha256)


def load_keys(secret: SecretStr | None, data_dir: Path) -> SigningKeys:
    """The keys of ``secret``; without one, of the file in ``data_dir``, which is created if it is missing.

    Concurrent processes all get the same keys. `InvalidRequest` if other users can read the file, or if it is not a
    secret.
    """
    if secret is not None:
        return SigningKeys(secret.get_secret_value().encode())
    path = open_data_dir(data_dir).root / SECRET_FILE
    if not path.exists():
        _create(path)
    return SigningKeys(_read(path))


def _create(path: Path) -> None:
    """Write another file, then link it unless the secret exists by now, so that no process reads half a secret."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise InvalidRequest(f"cannot write the secret {str(path)!r}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    try:
        with path.open() as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read the secret {str(path)!r}: {error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidRequest(
            f"other users can read the secret {str(path)!r}: chmod 600 it, or delete it to get a new one"
        )
    if len(text) < _BYTES:
        raise InvalidRequest(f"the secret {str(path)!r} is too short: delete it to get a new one")
    return text.encode()
