"""Running scripts over a wire: what the server has forgotten is sent again, what it refuses is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.errors import StoreError
from leasehold.valkey.commands import ScriptVerb
from leasehold.valkey.transport import error_mapping

if TYPE_CHECKING:
    from leasehold.valkey.commands import Verb
    from leasehold.valkey.transport.protocols import Call, Reply, Wire, Word


class Runner:
    """Runs the verbs of whatever is built on one wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def run(self, verb: ScriptVerb, name: str, *arguments: Word) -> Reply:
        """The reply to a script on one lock."""
        session = self._wire.session or await self._wire.open_session()
        return await self.checked(await session.run(verb, name, arguments), verb, name, arguments)

    async def get(self, verb: Verb, name: str) -> Reply:
        """The reply to a plain command on one lock."""
        session = self._wire.session or await self._wire.open_session()
        reply = await session.run(verb, name, ())
        self.raise_if_error(reply)
        return reply

    async def run_many(self, calls: list[Call]) -> list[Reply]:
        """The replies to ``calls`` of one verb; those whose script was forgotten are asked again, in one piece.

        Errors are among the replies, as values.
        """
        try:
            session = self._wire.session or await self._wire.open_session()
            replies = list(await session.run_many(calls))
            forgotten = [index for index, reply in enumerate(replies) if is_noscript(reply)]
            if forgotten:
                first, *others = [calls[index] for index in forgotten]
                assert isinstance(first.verb, ScriptVerb)
                again = [
                    first._replace(verb=first.verb.in_full),
                    *others,
                ]  # the first brings the script along
                session = self._wire.session or await self._wire.open_session()
                for index, reply in zip(forgotten, await session.run_many(again), strict=True):
                    replies[index] = reply
        except StoreError as error:
            return [error] * len(calls)
        return replies

    async def checked(self, reply: Reply, verb: ScriptVerb, name: str, arguments: tuple[Word, ...]) -> Reply:
        """``reply`` if it is one; an error reply as the exception it stands for.

        A server that restarted, failed over or was told SCRIPT FLUSH has forgotten the script: NOSCRIPT
        says that nothing was done, so the whole text is sent, and remembered again.
        """
        if is_noscript(reply):
            session = self._wire.session or await self._wire.open_session()
            reply = await session.run(verb.in_full, name, arguments)
        self.raise_if_error(reply)
        return reply

    def raise_if_error(self, reply: Reply) -> None:
        """Raise an error reply as the exception it stands for."""
        if not isinstance(reply, Exception):
            return
        if isinstance(reply, StoreError):
            raise reply
        if str(reply).startswith("READONLY"):
            # Not the primary any more. If it becomes one again, its data may be older than our floor,
            # so nothing may be granted on this session again.
            self._wire.start_over()
        raise error_mapping.from_reply(str(reply), reply)


def is_noscript(reply: Reply) -> bool:
    """Whether the server has forgotten the script."""
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")
