"""The acknowledgement of grants by replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from leasehold.core.replies import NotReplicated
from leasehold.errors import StoreError
from leasehold.valkey.transport import codec, error_mapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.protocols import Reply

# A request may come while the one before it waits for replicas, and both have to end within the timeout.
_PART_OF_TIMEOUT = 1 / 4

# The first word of a reply of documents that grants nothing.
_REFUSALS = {b"busy", b"lost", b"asked"}


class Acknowledgement:
    """How many replicas must have received a grant, and how long to wait for them.

    The server replies to WAIT with the number of replicas that have all that its connection has written, so it is sent
    on the same connection, behind the grant. Until then it runs no other command of the connection.
    """

    def __init__(self, min_replicas: int, timeout: float) -> None:
        self._min_replicas = min_replicas
        self._within_ms = max(1, int(timeout * _PART_OF_TIMEOUT * 1000))
        self.request = codec.pack(("WAIT", min_replicas, self._within_ms))

    def check(self, replies: Sequence[Reply], acknowledged: Reply) -> list[Reply]:
        """``replies``, with an error in the place of each grant, unless enough replicas have ``acknowledged`` them."""
        if isinstance(acknowledged, int) and acknowledged >= self._min_replicas:
            return list(replies)
        return [reply if _is_refusal(reply) else self._error(acknowledged) for reply in replies]

    def _error(self, acknowledged: Reply) -> StoreError:
        if isinstance(acknowledged, StoreError):
            return error_mapping.copy_of(acknowledged)
        if isinstance(acknowledged, Exception):
            error = NotReplicated(f"not replicated: {acknowledged}")
            error.__cause__ = acknowledged
            return error
        error = NotReplicated(
            f"not replicated: {acknowledged} of {self._min_replicas} replicas (min_replicas) acknowledged it within "
            f"{self._within_ms / 1000:g} s"
        )
        error.__cause__ = codec.ReplyError("NOREPLICAS")
        return error


def acknowledgement_for(server: Endpoint, timeout: float) -> Acknowledgement | None:
    """The acknowledgement that ``server`` needs, None if it needs none."""
    return Acknowledgement(server.min_replicas, timeout) if server.min_replicas else None


def _is_refusal(reply: Reply) -> bool:
    """Nothing was granted, so there is nothing to acknowledge. A reply that is not known counts as a grant."""
    verdict: Reply = next(iter(cast("list[Reply]", reply)), None) if isinstance(reply, list) else reply
    if isinstance(verdict, int):
        return verdict <= 0
    return isinstance(verdict, Exception) or (isinstance(verdict, bytes) and verdict in _REFUSALS)
