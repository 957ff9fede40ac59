"""The address and credentials of a server, parsed from a store URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    import ssl

_SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix")
_TLS_SCHEMES = {"rediss", "valkeys"}
_LATER = ("redis+sentinel", "redis+cluster", "redlock")
_OPTIONS = {"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs"}

_HINT = "special characters in a password are written as %XX"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server. Its password never shows in a repr, a log or an error."""

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.path else f"{self.host}:{self.port}"


def parse(url: str, *, tls: ssl.SSLContext | None = None) -> Endpoint:
    """The endpoint that ``url`` names; raises `InvalidRequest` if it is not valid.

    No message repeats any part of the URL but its scheme: an unescaped password may stand anywhere.
    """
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a store URL must be text, not {type(url).__name__}")
    scheme = url.partition(":")[0]
    if scheme in _LATER:
        raise InvalidRequest(
            f"{scheme}:// is not supported yet; use one of {_supported()}, or no URL for an embedded server"
        )
    if scheme not in _SCHEMES:
        raise InvalidRequest(f"a store URL begins with one of {_supported()}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidRequest(f"the host or the port in the store URL is not valid; {_HINT}") from None
    if port == 0:
        raise InvalidRequest("the port in the store URL must be a number from 1 to 65535")
    options = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
    if unknown := options.keys() - _OPTIONS:
        # An "@" this late means that it is not an option at all, but the rest of a password.
        which = "" if "@" in parts.query else f" {min(unknown)!r}"
        raise InvalidRequest(
            f"unknown option{which} in the store URL; known are {', '.join(sorted(_OPTIONS))}; {_HINT}"
        )
    if scheme == "unix":
        if not parts.path:
            raise InvalidRequest("a unix:// URL needs the path of a socket, as in unix:///run/valkey.sock")
        path, db = unquote(parts.path), options.get("db", "0")
    else:
        path, db = None, options.get("db") or parts.path.strip("/") or "0"
    if not (db.isascii() and db.isdecimal()):
        raise InvalidRequest(f"the database in the store URL must be a number; {_HINT}")
    if scheme in _TLS_SCHEMES:
        tls = tls or _tls_from(options)
    elif tls is not None or any(option.startswith("ssl_") for option in options):
        raise InvalidRequest(f"{scheme}:// is not encrypted; use rediss:// or valkeys:// with TLS options")
    return Endpoint(
        host=parts.hostname or "localhost",
        port=port or 6379,
        path=path,
        db=int(db),
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        tls=tls,
    )


def _tls_from(options: dict[str, str]) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - only where TLS is used

    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if certificate := options.get("ssl_certfile"):
            context.load_cert_chain(certificate, options.get("ssl_keyfile"))
    except (OSError, ssl.SSLError) as error:
        raise InvalidRequest(f"the TLS files in the store URL cannot be used: {error}") from error
    required = options.get("ssl_cert_reqs", "required")
    if required == "none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif required != "required":
        raise InvalidRequest("ssl_cert_reqs must be 'required' or 'none'")
    return context


def _supported() -> str:
    return ", ".join(f"{scheme}://" for scheme in _SCHEMES)


def redis_url(host: str | None, port: str | None) -> str | None:
    """The URL that ``REDIS_HOST`` and ``REDIS_PORT`` mean; None if neither is set."""
    if not host and not port:
        return None
    if port and not port.isdecimal():
        # Kubernetes sets REDIS_PORT=tcp://... beside a service of that name.
        raise InvalidRequest(f"REDIS_PORT must be a number, not {port!r}; or set LEASEHOLD_STORE_URL")
    host = f"[{host}]" if host and ":" in host else host or "localhost"
    return f"redis://{host}:{port or 6379}"
