"""Where the environment says the store is."""

from __future__ import annotations

from leasehold.errors import InvalidRequest


def redis_url(host: str | None, port: str | None) -> str | None:
    """The URL that ``REDIS_HOST`` and ``REDIS_PORT`` mean; None if neither is set."""
    if not host and not port:
        return None
    if port and not port.isdecimal():
        # Kubernetes sets REDIS_PORT=tcp://... beside a service of that name.
        raise InvalidRequest(f"REDIS_PORT must be a number, not {port!r}; or set LEASEHOLD_STORE_URL")
    host = f"[{host}]" if host and ":" in host else host or "localhost"
    return f"redis://{host}:{port or 6379}"
