"""One blocking connection: a socket, used by one thread at a time."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from leasehold.errors import StoreUnavailable
from leasehold.valkey.transport import codec, error_mapping, handshake
from leasehold.valkey.transport.server_clock import ServerClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.valkey.commands import Command
    from leasehold.valkey.transport.acknowledgement import Acknowledgement
    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.handshake import ServerFacts
    from leasehold.valkey.transport.protocols import Call, Reply, Word

# Replies are small; a larger buffer would be allocated anew for every one of them.
_CHUNK = 8192


class BlockingConnection:
    """Implements `leasehold.valkey.transport.protocols.Connection` on a socket that one thread uses at a time.

    After one exchange it goes back to the pool by itself.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float,
        clock: Callable[[], float],
        put_back: Callable[[BlockingConnection], None],
        track: Callable[[socket.socket], None],
        acknowledgement: Acknowledgement | None = None,
    ) -> None:
        self._acknowledgement = acknowledgement
        self.name = str(endpoint)
        self._timeout = timeout
        self._clock = clock
        self._put_back = put_back
        self._reader = codec.new_reader()
        self.server_clock = ServerClock(clock)
        self.floor: int | None = None
        self.deletes_if_equal = False
        self.may_ask_twice = False
        self.is_broken = False
        self.is_exchanging = False
        self.generation: object = None
        try:
            self._socket = _connect(endpoint, timeout, track)
        except (OSError, UnicodeError) as error:  # a host name that cannot be encoded
            if isinstance(error, OSError) and error_mapping.is_from_handler(error):
                raise
            raise error_mapping.no_connection(endpoint, error) from error
        self._socket.settimeout(timeout)

    def shake_hands(self, endpoint: Endpoint, client_name: str, *, allow_eviction: bool) -> ServerFacts:
        """Authenticate and read the facts about the server."""
        try:
            replies = self.call_many(handshake.commands(endpoint, client_name))
        except StoreUnavailable as error:
            if isinstance(error.__cause__, codec.ProtocolError):
                raise error_mapping.not_redis(self.name, error.__cause__) from error.__cause__
            raise
        facts = handshake.read_replies(replies, endpoint, allow_eviction=allow_eviction)
        self.floor = facts.floor
        self.deletes_if_equal = facts.deletes_if_equal
        self.server_clock.read(facts.time_us / 1000)
        return facts

    def now_ms(self) -> int:
        """The server's clock, approximately."""
        return int((self.server_clock.offset + self._clock()) * 1000)

    async def run(self, command: Command, name: str, arguments: tuple[Word, ...]) -> Reply:
        """The reply to one command on a lock."""
        return self._run([(command, name, arguments)])[0]

    async def run_many(self, calls: Sequence[Call]) -> Sequence[Reply]:
        """The replies to many commands on locks, sent in one piece."""
        return self._run(calls)

    async def call(self, *words: Word) -> Reply:
        """The reply to any other command."""
        try:
            self.is_exchanging = True
            return self._exchange([codec.pack(words)])[0]
        finally:
            self.is_exchanging = False
            self._put_back(self)

    def call_many(self, commands: Sequence[tuple[Word, ...]]) -> list[Reply]:
        """The replies to many other commands, sent in one piece. Does not put the connection back."""
        return self._exchange([codec.pack(words) for words in commands])

    def _run(self, calls: Sequence[tuple[Command, str, tuple[Word, ...]]]) -> list[Reply]:
        try:
            self.is_exchanging = True
            commands = [command.pack(name, arguments) for command, name, arguments in calls]
            acknowledgement = self._acknowledgement
            if acknowledgement is None or all(command.effect != "grant" for command, _, _ in calls):
                return self._exchange(commands)
            *replies, acknowledged = self._exchange([*commands, acknowledgement.request])
            return acknowledgement.check(replies, acknowledged)
        finally:
            self.is_exchanging = False
            self._put_back(self)

    def _exchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """Send ``commands`` in one piece and read their replies.

        Any interruption breaks the connection: after half an exchange, every later reply would be matched
        to the wrong request. So it counts as broken until the last reply has been read, whatever comes in between.
        """
        self.is_broken = True
        try:
            self._socket.sendall(b"".join(commands))
            replies = [self._read_reply() for _ in commands]
            if self._reader.gets() is not codec.NOTHING:
                raise ConnectionError("a reply without a request")
        except OSError as error:
            self.close()
            if error_mapping.is_from_handler(error):
                raise
            if not isinstance(error, TimeoutError):
                raise error_mapping.no_reply(f"the connection to {self.name} was lost", error) from error
            raise error_mapping.no_reply(
                f"no answer from {self.name} within {self._timeout:g} s", error
            ) from error
        except EOFError as error:
            self.close()
            raise error_mapping.no_reply(f"the connection to {self.name} was lost", error) from error
        except codec.ProtocolError as error:
            self.close()
            raise error_mapping.no_reply(
                f"{self.name} does not speak the Redis protocol: {error}", error
            ) from error
        except BaseException:
            self.close()
            raise
        self.is_broken = False
        return replies

    def receive(
        self,
        channel: str,
        handle: Callable[[bytes], None],
        on_subscribed: Callable[[], None],
        ping_every: float | None = None,
    ) -> None:
        """Subscribe to ``channel`` until the connection breaks, which is an exception; `shut_down` breaks it too.

        A server that sends nothing for ``ping_every`` seconds must reply to a ping. Raises `StoreRefused` if the server
        refuses the subscription.
        """
        try:
            self._socket.sendall(codec.pack(("SUBSCRIBE", channel)))
            self._socket.settimeout(ping_every)
            while True:
                match self._read() if ping_every is None else self._read_or_ping(ping_every):
                    case [b"message", _, payload]:
                        handle(payload)
                    case Exception() as refusal:
                        raise error_mapping.from_reply(str(refusal), refusal)
                    case [b"subscribe", *_]:
                        on_subscribed()
                    case _:
                        pass
        except (OSError, EOFError, codec.ProtocolError) as error:
            raise error_mapping.no_reply(f"the connection to {self.name} was lost", error) from error
        finally:
            self.close()

    def shut_down(self) -> None:
        """End the connection and wake up the thread that receives on it."""
        with suppress(OSError):  # the server may have been faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket. Nothing is sent on it, so a forked child may do this too."""
        self.is_broken = True
        self._socket.close()

    def _read_reply(self) -> Reply:
        while True:
            reply = self._read()
            if type(reply) is not codec.Push:
                return reply

    def _read_or_ping(self, ping_every: float) -> Reply:
        self._socket.settimeout(ping_every)
        try:
            return self._read()
        except TimeoutError:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(codec.pack(("PING",)))
            return self._read()

    def _read(self) -> Reply:
        while (reply := self._reader.gets()) is codec.NOTHING:
            data = self._socket.recv(_CHUNK)
            if not data:
                raise EOFError("closed by the server")
            self._reader.feed(data)
        return reply


def _connect(endpoint: Endpoint, timeout: float, track: Callable[[socket.socket], None]) -> socket.socket:
    """A connected socket. ``track`` gets every one before it is used: a fork may happen at any moment."""
    if endpoint.path:
        return _connect_one(socket.AF_UNIX, endpoint.path, timeout, track)
    plain = _connect_any(endpoint, timeout, track)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return plain if endpoint.tls is None else _secure(plain, endpoint, track)
    except BaseException:
        plain.close()
        raise


def _secure(
    plain: socket.socket, endpoint: Endpoint, track: Callable[[socket.socket], None]
) -> socket.socket:
    assert endpoint.tls is not None
    secured = endpoint.tls.wrap_socket(plain, server_hostname=endpoint.host, do_handshake_on_connect=False)
    track(secured)
    try:
        secured.do_handshake()
    except BaseException:
        secured.close()
        raise
    return secured


def _connect_any(endpoint: Endpoint, timeout: float, track: Callable[[socket.socket], None]) -> socket.socket:
    failure = OSError(f"{endpoint.host} has no address")
    for family, _, _, _, address in socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
        try:
            return _connect_one(family, address, timeout, track)
        except OSError as error:
            if error_mapping.is_from_handler(error):
                raise
            failure = error
    raise failure


def _connect_one(
    family: int, address: Any, timeout: float, track: Callable[[socket.socket], None]
) -> socket.socket:
    plain = socket.socket(family, socket.SOCK_STREAM)
    track(plain)
    try:
        plain.settimeout(timeout)
        plain.connect(address)
    except BaseException:
        plain.close()
        raise
    return plain
