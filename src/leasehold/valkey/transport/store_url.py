"""Store URLs, parsed into the servers that they name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from leasehold.errors import InvalidRequest
from leasehold.valkey.transport.cluster.slot_map import ClusterNodes
from leasehold.valkey.transport.endpoint import Endpoint
from leasehold.valkey.transport.sentinel import SentinelGroup

if TYPE_CHECKING:
    import ssl

_SINGLE = ("redis", "rediss", "valkey", "valkeys", "unix")
_SENTINEL = ("redis+sentinel", "rediss+sentinel")
_CLUSTER = ("redis+cluster", "rediss+cluster")
_SCHEMES = (*_SINGLE, *_SENTINEL, *_CLUSTER)
_TLS_SCHEMES = {"rediss", "valkeys", "rediss+sentinel", "rediss+cluster"}
_LATER = ("redlock",)

_TLS_OPTIONS = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs"}
_OPTIONS = {"db", "min_replicas", *_TLS_OPTIONS}
_SENTINEL_OPTIONS = {*_OPTIONS, "sentinel_username", "sentinel_password"}
_CLUSTER_OPTIONS = {*_OPTIONS, "address_map"}

_PORT, _SENTINEL_PORT = 6379, 26379

_HINT = "special characters in a password are written as %XX"
_MOST_REPLICAS = 1000
_NOT_VALID = f"the host or the port in the store URL is not valid; {_HINT}"


def parse(url: str, *, tls: ssl.SSLContext | None = None) -> Endpoint | SentinelGroup | ClusterNodes:
    """The servers that ``url`` names; raises `InvalidRequest` if it is not valid.

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
    except ValueError:
        raise InvalidRequest(_NOT_VALID) from None
    options = _options_of(parts, _known_options(scheme))
    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    server = Endpoint(
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=_tls_of(scheme, options, tls),
        min_replicas=_min_replicas_of(options.get("min_replicas", "0")),
    )
    if scheme in _SENTINEL:
        return _sentinel_group(server, hosts, parts, options)
    if scheme in _CLUSTER:
        return _cluster_nodes(server, hosts, parts, options)
    if scheme == "unix":
        if not parts.path:
            raise InvalidRequest("a unix:// URL needs the path of a socket, as in unix:///run/valkey.sock")
        return replace(server, path=unquote(parts.path), db=_number_of(options.get("db", "0")))
    ((host, port),) = _addresses_of(hosts, _PORT, at_most=1)
    db = _number_of(options.get("db") or parts.path.strip("/") or "0")
    return replace(server, host=host or "localhost", port=port, db=db)


def _sentinel_group(
    server: Endpoint, hosts: str, parts: SplitResult, options: dict[str, str]
) -> SentinelGroup:
    service = unquote(parts.path.removeprefix("/"))
    if not service or "/" in service or "@" in service:
        raise InvalidRequest(
            "a store URL with sentinels ends with the name of the service that they monitor, as in "
            f"redis+sentinel://host1,host2,host3/service; {_HINT}"
        )
    addresses = _addresses_of(hosts, _SENTINEL_PORT)
    if not all(host for host, _ in addresses):
        raise InvalidRequest(f"a store URL with sentinels names a host for each of them; {_HINT}")
    sentinels = tuple(
        Endpoint(
            host,
            port,
            username=options.get("sentinel_username") or None,
            password=options.get("sentinel_password") or None,
            tls=server.tls,
        )
        for host, port in dict.fromkeys(addresses)
    )
    db = _number_of(options.get("db", "0"))
    return SentinelGroup(service, sentinels, replace(server, db=db, service=service))


def _cluster_nodes(server: Endpoint, hosts: str, parts: SplitResult, options: dict[str, str]) -> ClusterNodes:
    if parts.path.strip("/") not in {"", "0"} or options.get("db", "0") != "0":
        raise InvalidRequest(
            f"a cluster has no databases but 0; leave the database out of its store URL; {_HINT}"
        )
    addresses = _addresses_of(hosts, _PORT)
    if not all(host for host, _ in addresses):
        raise InvalidRequest(f"a store URL with a cluster names a host for each of some nodes; {_HINT}")
    seeds = tuple(replace(server, host=host, port=port) for host, port in dict.fromkeys(addresses))
    return ClusterNodes(seeds, _address_map_of(options.get("address_map", "")))


def _address_map_of(text: str) -> dict[tuple[str, int], tuple[str, int]]:
    """From ``ANNOUNCED=REACHED,…``, each of them ``HOST:PORT``."""
    addresses: dict[tuple[str, int], tuple[str, int]] = {}
    for entry in filter(None, text.split(",")):
        both = [_addresses_of(side, _PORT)[0] for side in entry.split("=")]
        if len(both) != 2 or not all(host for host, _ in both):
            raise InvalidRequest(
                "address_map in the store URL lists announced addresses and where they are reached, as in "
                "address_map=10.0.0.1:6379=localhost:7001,10.0.0.2:6379=localhost:7002"
            )
        addresses[both[0]] = both[1]
    return addresses


def _known_options(scheme: str) -> set[str]:
    if scheme in _SENTINEL:
        return _SENTINEL_OPTIONS
    return _CLUSTER_OPTIONS if scheme in _CLUSTER else _OPTIONS


def _options_of(parts: SplitResult, known: set[str]) -> dict[str, str]:
    options = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
    if unknown := options.keys() - known:
        # An "@" this late means that it is not an option at all, but the rest of a password.
        which = "" if "@" in parts.query else f" {min(unknown)!r}"
        raise InvalidRequest(
            f"unknown option{which} in the store URL; known are {', '.join(sorted(known))}; {_HINT}"
        )
    return options


def _addresses_of(hosts: str, default_port: int, at_most: int | None = None) -> list[tuple[str, int]]:
    texts = hosts.split(",")
    if at_most is not None and len(texts) > at_most:
        raise InvalidRequest(
            f"this store URL names one server; several hosts need {_SENTINEL[0]}:// or {_CLUSTER[0]}://; {_HINT}"
        )
    addresses: list[tuple[str, int]] = []
    for text in texts:
        try:
            parts = urlsplit(f"//{text}")
            port = parts.port
        except ValueError:
            raise InvalidRequest(_NOT_VALID) from None
        if port == 0:
            raise InvalidRequest("a port in the store URL must be a number from 1 to 65535")
        addresses.append((parts.hostname or "", port or default_port))
    return addresses


def _number_of(db: str) -> int:
    if not (db.isascii() and db.isdecimal()):
        raise InvalidRequest(f"the database in the store URL must be a number; {_HINT}")
    return int(db)


def _min_replicas_of(number: str) -> int:
    if not (number.isascii() and number.isdecimal() and len(number) < 5 and int(number) <= _MOST_REPLICAS):
        raise InvalidRequest(
            f"min_replicas in the store URL must be a whole number from 0 to {_MOST_REPLICAS}; {_HINT}"
        )
    return int(number)


def _tls_of(scheme: str, options: dict[str, str], given: ssl.SSLContext | None) -> ssl.SSLContext | None:
    if scheme in _TLS_SCHEMES:
        return given or _tls_from(options)
    if given is not None or options.keys() & _TLS_OPTIONS:
        raise InvalidRequest(f"{scheme}:// is not encrypted; use rediss:// or valkeys:// with TLS options")
    return None


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
