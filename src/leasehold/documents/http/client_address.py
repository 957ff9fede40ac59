"""Groups client addresses, so that a client with many addresses counts as one."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def plain_address(host: str) -> str:
    """``host``, or the IPv4 address that it contains: a socket that listens on IPv6 receives IPv4 clients as ``::ffff:…``."""
    if host.startswith("::ffff:") or "%" in host:
        address = _parse(host)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
    return host


def address_group(host: str) -> str:
    """The name under which requests from ``host`` are counted: an IPv4 address, or the /64 network of an IPv6 one."""
    address = _parse(host)
    if not isinstance(address, IPv6Address):
        return host if address is None else str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64))


def _parse(host: str) -> object:
    try:
        return ip_address(host)
    except ValueError:
        return None
