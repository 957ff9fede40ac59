"""``leasehold files lock``: a file for a while, or for as long as a command runs."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from leasehold.cli.errors import command_error, warn
from leasehold.cli.files.open_session import spelled
from leasehold.cli.format import duration, printable
from leasehold.cli.output import fence_as_json, show_json
from leasehold.cli.run.command import find_executable
from leasehold.cli.run.hold import Terms, run_under, with_signals
from leasehold.errors import FileBusy
from leasehold.files import FileLocks

if TYPE_CHECKING:
    from collections.abc import Generator

    from leasehold.cli.files.open_session import Which
    from leasehold.cli.run.signals import Signals
    from leasehold.files.sessions.entries import Access

DOING = {"read": "reading", "write": "writing"}
# What the library advises is said to programs; the same for a shell.
_IN_A_SHELL = {
    "wait for it (wait=seconds)": "wait for it (--wait SECONDS)",
    "use that lease, upgrade it, or restore() if its process has ended": (
        "leasehold files unlock gives it back, and leasehold files restore takes it over if its process has ended; "
        "if somebody else works under the same id, set LEASEHOLD_SESSION"
    ),
}


async def lock_and_run(which: Which, path: str, command: list[str], access: Access, **terms: Any) -> int:
    """The exit code of ``command``, run while the file is locked. It finds the file in LEASEHOLD_NAME, and the fence."""
    find_executable(command[0])
    whose = which.whose(make=True)
    grace: float = terms.pop("grace")
    chosen = which.file_options()

    async def run(signals: Signals) -> int:
        async with which.store.connect() as locks:
            files = FileLocks(locks, **chosen)
            session = await files.session(whose.session, secret=whose.secret)
            ask = session.write if access == "write" else session.read
            settings = chosen["settings"]
            wanted = settings.ttl if terms["ttl"] is None else terms["ttl"]
            ttl = min(wanted, settings.max_ttl)
            lock = ask(spelled(path), on_loss="signal", **terms)
            held = Terms(ttl, None, "exclusive", None, None, grace)
            if ttl < wanted:
                _warn_of_trimming(ttl)
            with _advice_for_a_shell():
                return await run_under(lock, spelled(path), command, held, signals)

    return await with_signals(run)


def lock_for_a_while(which: Which, path: str, access: Access, *, in_json: bool, **terms: Any) -> None:
    """Lock the file, say so, and leave it locked."""
    with which.open_session(make=True) as session:
        ask = session.acquire_write if access == "write" else session.acquire_read
        with _advice_for_a_shell():
            lease = ask(spelled(path), **terms)
        left = lease.remaining()
        if lease.trimmed:
            _warn_of_trimming(lease.ttl)
        unlock = shlex.join(["leasehold", "files", "unlock", path, *_flags(which)])
        if which.store.url is not None and not _can_be_shown(which.store.url):
            warn("the URL is not repeated, since it may have a password in it; unlock needs the same --url")
        if in_json:
            show_json(
                {
                    "path": lease.path,
                    "mode": lease.mode,
                    "session": session.id,
                    "fence": fence_as_json(lease.fence),
                    "ttl": lease.ttl,
                    "trimmed": lease.trimmed,
                    "remaining": left,
                    "unlock": unlock,
                }
            )
        else:
            sys.stdout.write(
                f"{printable(lease.path)} is locked for {DOING[lease.mode]} by session {session.id} for {duration(left)}, "
                f"fence {lease.fence}\ngive it back with: {printable(unlock)}\n"
            )


def _flags(which: Which) -> list[str]:
    """What ``unlock`` must be told, too. Nothing that the environment says already, and no secret."""
    store = which.store
    namespace = os.environ.get("LEASEHOLD_NAMESPACE") or "lock"
    timeout = os.environ.get("LEASEHOLD_TIMEOUT") or "2"
    given = {
        "--session": which.session or None,
        "--secret-file": which.secret_file,
        "--root": which.root,
        "--project": which.project or None,
        "--url": store.url if store.url is not None and _can_be_shown(store.url) else None,
        "--data-dir": store.data_dir,
        "--namespace": None if store.namespace == namespace else store.namespace,
        "--timeout": None if store.timeout == float(timeout) else f"{store.timeout:g}",
    }
    return [word for flag, value in given.items() if value is not None for word in (flag, str(value))]


def _can_be_shown(url: str) -> bool:
    """Whether a store's URL, which has been connected to, is without a password."""
    parts = urlsplit(url)
    return parts.username is None and parts.password is None


def _warn_of_trimming(ttl: float) -> None:
    warn(f"the ttl was trimmed to {ttl:g} s, the longest that is allowed")


@contextmanager
def _advice_for_a_shell() -> Generator[None]:
    try:
        yield
    except FileBusy as busy:
        message = str(busy)
        for said, instead in _IN_A_SHELL.items():
            message = message.replace(said, instead)
        raise command_error(busy, message) from busy
