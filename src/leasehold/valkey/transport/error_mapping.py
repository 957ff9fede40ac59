"""Mapping of the errors of servers and drivers to those of Leasehold, and their codes for logs and metrics."""

from __future__ import annotations

import errno
import re
import socket
from dataclasses import dataclass
from typing import Literal

from leasehold.core.replies import TooLate
from leasehold.errors import StoreError, StoreRefused, StoreUnavailable

# Replies of a server that cannot do anything at the moment: nothing was changed, and a later attempt may
# succeed, so they are treated like no reply.
_TRANSIENT = {"LOADING", "BUSY", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN"}

_ADVICE = {
    "OOM": "the server is out of memory (maxmemory), so it grants no locks; give it more memory",
    "READONLY": "this server is a read-only replica; connect to its primary",
    "NOAUTH": "the server requires a password; put it into the URL: redis://user:password@host",
    "WRONGPASS": "the server does not accept this user name and password",
    "NOPERM": "this user may not run the commands that locks need; see docs/service.md",
    "WRONGTYPE": "a key of this lock holds something else; choose another namespace",
    "MISCONF": "the server refuses writes because it cannot save to disk",
    "NOREPLICAS": "the server refuses writes because it has too few replicas",
    "LEASEHOLD-VERSION": "this lock was written by another version of Leasehold, which this one cannot read",
    "MOVED": "this server is a node of a cluster; use a store URL for those, redis+cluster://host1,host2",
    "CROSSSLOT": "this server is a node of a cluster; use a store URL for those, redis+cluster://host1,host2",
    "DENIED": "the server runs in protected mode and refuses this connection",
}

# The first words of error replies that are worth telling apart; there are few, so they may be labels.
_CODES = {*_TRANSIENT, *_ADVICE, "ERR", "NOSCRIPT", "TOOLATE", "ASK", "EXECABORT"}

# The error of a command in a script, as servers before Redis 7 wrap it, and an error that a script raises itself:
# "ERR Error running script (call to f_…): @user_script:1: @user_script: 1: -READONLY You can't write …".
_IN_SCRIPT = re.compile(r"user_script: ?\d+: -?([A-Z][A-Z-]+)\b")

# Replies whose own first word is ERR, or none.
_WORDINGS = {
    "invalid password": "WRONGPASS",  # Redis 6, to AUTH with one argument
    "The user executing the script can't run": "NOPERM",  # Redis 6
    "ACL failure in script": "NOPERM",
}

_CALL_THE_SYSTEM = {"leasehold", "socket", "ssl"}

# A chain of causes has no more links than this, unless it is a circle.
_LONGEST_CHAIN = 8


@dataclass(frozen=True, slots=True)
class StoreFault:
    """One failure of the store. ``code`` is the server's, the system's, ``TIMEOUT``, ``TLS`` or ``OTHER``.

    Never a message, so it is safe for logs and labels: a server may repeat in a message what it was sent, a
    password included.
    """

    kind: Literal["unavailable", "refused"]
    code: str


def from_reply(message: str, cause: BaseException) -> StoreError:
    """The error for an error reply of the server."""
    code = code_of(message)
    if code == "TOOLATE":
        late = TooLate(int(message.split()[1]))
        late.__cause__ = cause
        return late
    advice = _ADVICE.get(code)
    text = f"{advice} ({message})" if advice else f"the server replied: {message}"
    error = StoreUnavailable(text) if code in _TRANSIENT else StoreRefused(text)
    error.__cause__ = cause
    return error


def code_of(message: str) -> str:
    """The code of an error reply; "" if it has none that is known."""
    first = message.partition(" ")[0]
    if first in _CODES and first != "ERR":
        return first
    for found in _IN_SCRIPT.finditer(message):
        if found[1] in _CODES:
            return found[1]
    # Not anywhere else in the text: a server may repeat in a message what it was sent.
    for wording, code in _WORDINGS.items():
        if wording in message:
            return code
    return first if first in _CODES else ""


def is_from_handler(error: BaseException) -> bool:
    """Whether a signal handler of the program raised ``error`` in the middle of a call to the system.

    Many raise TimeoutError, which the socket raises too. The function that raised it is the last in the traceback.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    package = _package_of(trace.tb_frame.f_globals.get("__name__"))
    # Packages such as gevent and PySocks replace the class of sockets by one of their own.
    return package not in _CALL_THE_SYSTEM and package != _package_of(socket.socket.__module__)


def _package_of(module: object) -> str:
    return str(module).partition(".")[0]


def no_reply(what: str, cause: BaseException | None = None) -> StoreUnavailable:
    """The error for a request without a reply."""
    error = StoreUnavailable(what)
    error.__cause__ = cause
    return error


def no_connection(server: object, error: Exception) -> StoreError:
    """The error for a connection that could not be made: no command was sent."""
    import ssl  # noqa: PLC0415 - only where TLS is used, or connecting fails

    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreRefused(f"{server} shows a certificate that cannot be trusted: {error}")
    # A timeout of asyncio has no text.
    return StoreUnavailable(f"no connection to {server}: {str(error) or 'no answer'}")


def not_redis(server: str, error: BaseException) -> StoreError:
    """The error for a server of another protocol."""
    return StoreRefused(f"{server} does not speak the Redis protocol: {error}")


def copy_of(error: StoreError) -> StoreError:
    """The same error for another caller: a shared instance would collect the tracebacks of all callers."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy


def fault_of(error: BaseException | None) -> StoreFault | None:
    """The store's failure that ``error`` reports; None if it reports something else."""
    if not isinstance(error, StoreError):
        return None
    return StoreFault("unavailable" if isinstance(error, StoreUnavailable) else "refused", _code_of(error))


def _code_of(error: BaseException) -> str:
    cause: BaseException | None = error
    found = ""
    for _ in range(_LONGEST_CHAIN):
        if cause is None:
            break
        found = _own_code(cause) or found  # the deepest cause is the most exact
        cause = cause.__cause__ or cause.__context__
    return found or "OTHER"


def _own_code(error: BaseException) -> str:
    import ssl  # noqa: PLC0415 - see `no_connection`

    if isinstance(error, ssl.SSLError):
        return "TLS"
    if isinstance(error, TimeoutError):
        return "TIMEOUT"
    if isinstance(error, OSError):
        return errno.errorcode.get(error.errno or 0, "CLOSED")
    if isinstance(error, EOFError):
        return "CLOSED"
    if isinstance(error, StoreError):
        return ""
    return code_of(str(error))
