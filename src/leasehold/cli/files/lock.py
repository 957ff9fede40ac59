"""``leasehold files lock``: locks a file until its ttl ends, or while a command runs."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from leasehold.cli.errors import as_cli_error, warn
from leasehold.cli.files.open_session import absolute_path
from leasehold.cli.files.secrets import without_secret
from leasehold.cli.format import format_duration, printable
from leasehold.cli.output import fence_as_json, print_json
from leasehold.cli.run.command import find_executable
from leasehold.cli.run.hold import HoldOptions, run_under_lock, run_with_signals
from leasehold.errors import FileBusy
from leasehold.files import FileLocks

if TYPE_CHECKING:
    from collections.abc import Generator

    from leasehold.cli.files.open_session import SessionOptions
    from leasehold.cli.run.signals import SignalForwarder
    from leasehold.files.sessions.entries import Access

DOING = {"read": "reading", "write": "writing"}
# The library's messages advise programs; these are the same advice for a shell.
_SHELL_ADVICE = {
    "wait for it (wait=seconds)": "wait for it (--wait SECONDS)",
    "use that lease, upgrade it, or restore() if its process has ended": (
        "leasehold files unlock releases it, and leasehold files restore takes it over if its process has ended; "
        "if another user has the same session id, set LEASEHOLD_SESSION"
    ),
}


async def lock_and_run(
    options: SessionOptions, path: str, command: list[str], access: Access, **lock_options: Any
) -> int:
    """Run ``command`` while the file is locked and return its exit code.

    LEASEHOLD_NAME in its environment is the file. The session's secret is not in it.
    """
    find_executable(command[0])
    credentials = options.credentials(create=True)
    grace: float = lock_options.pop("grace")
    chosen = options.file_options()

    async def run(signals: SignalForwarder) -> int:
        async with options.store.connect() as locks:
            files = FileLocks(locks, **chosen)
            session = await files.session(credentials.session, secret=credentials.secret)
            ask = session.write if access == "write" else session.read
            settings = chosen["settings"]
            wanted = settings.ttl if lock_options["ttl"] is None else lock_options["ttl"]
            ttl = min(wanted, settings.max_ttl)
            lock = ask(absolute_path(path), on_loss="signal", **lock_options)
            held = HoldOptions(ttl, None, "exclusive", None, None, grace)
            if ttl < wanted:
                _warn_of_trimming(ttl)
            with _shell_advice():
                return await run_under_lock(
                    lock, absolute_path(path), command, held, signals, environ=without_secret(os.environ)
                )

    return await run_with_signals(run)


def lock_for_a_while(
    options: SessionOptions, path: str, access: Access, *, in_json: bool, **lock_options: Any
) -> None:
    """Lock the file, print how to unlock it, and leave it locked."""
    with options.open_session(create=True) as session:
        ask = session.acquire_write if access == "write" else session.acquire_read
        with _shell_advice():
            lease = ask(absolute_path(path), **lock_options)
        left = lease.remaining()
        if lease.trimmed:
            _warn_of_trimming(lease.ttl)
        unlock = shlex.join(["leasehold", "files", "unlock", path, *_flags(options)])
        if options.store.url is not None and not _has_no_credentials(options.store.url):
            warn("the URL is not shown, because it may contain a password; unlock needs the same --url")
        if in_json:
            print_json(
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
                f"{printable(lease.path)} is locked for {DOING[lease.mode]} by session {session.id} for {format_duration(left)}, "
                f"fence {lease.fence}\nunlock it with: {printable(unlock)}\n"
            )


def _flags(options: SessionOptions) -> list[str]:
    """The options that ``unlock`` needs as well: none that the environment has, and no secret."""
    store = options.store
    namespace = os.environ.get("LEASEHOLD_NAMESPACE") or "lock"
    timeout = os.environ.get("LEASEHOLD_TIMEOUT") or "2"
    given = {
        "--session": options.session or None,
        "--secret-file": options.secret_file,
        "--root": options.root,
        "--project": options.project or None,
        "--url": store.url if store.url is not None and _has_no_credentials(store.url) else None,
        "--data-dir": store.data_dir,
        "--namespace": None if store.namespace == namespace else store.namespace,
        "--timeout": None if store.timeout == float(timeout) else f"{store.timeout:g}",
    }
    return [word for flag, value in given.items() if value is not None for word in (flag, str(value))]


def _has_no_credentials(url: str) -> bool:
    """Whether a store's URL, options has been connected to, is without a password."""
    parts = urlsplit(url)
    return parts.username is None and parts.password is None


def _warn_of_trimming(ttl: float) -> None:
    warn(f"the ttl was trimmed to {ttl:g} s, the maximum")


@contextmanager
def _shell_advice() -> Generator[None]:
    try:
        yield
    except FileBusy as busy:
        message = str(busy)
        for said, instead in _SHELL_ADVICE.items():
            message = message.replace(said, instead)
        raise as_cli_error(busy, message) from busy
