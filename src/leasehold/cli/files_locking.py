"""``leasehold files lock``: a file for a while, or for as long as a command runs."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from leasehold.cli.commands import find_executable
from leasehold.cli.failures import warn
from leasehold.cli.files_opening import spelled
from leasehold.cli.running import Terms, run_under, with_signals
from leasehold.cli.showing import fence_as_json, show_json
from leasehold.cli.wording import duration, printable
from leasehold.files import FileLocks

if TYPE_CHECKING:
    from leasehold.cli.files_opening import Which
    from leasehold.cli.signals import Signals
    from leasehold.files.history import Access

DOING = {"read": "reading", "write": "writing"}


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
            ttl = min(terms["ttl"] or settings.ttl, settings.max_ttl)
            lock = ask(spelled(path), on_loss="signal", **terms)
            held = Terms(ttl, None, "exclusive", None, None, grace)
            return await run_under(lock, spelled(path), command, held, signals)

    return await with_signals(run)


def lock_for_a_while(which: Which, path: str, access: Access, *, in_json: bool, **terms: Any) -> None:
    """Lock the file, say so, and leave it locked."""
    with which.open_session(make=True) as session:
        ask = session.acquire_write if access == "write" else session.acquire_read
        lease = ask(spelled(path), **terms)
        left = lease.remaining()
        if lease.trimmed:
            warn(f"the ttl was trimmed to {lease.ttl:g} s, the longest that is allowed")
        unlock = shlex.join(["leasehold", "files", "unlock", path, *_flags(which)])
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
    """What ``unlock`` must be told, too. Nothing that is in the environment."""
    given = {
        "--session": which.session,
        "--secret-file": which.secret_file,
        "--root": which.root,
        "--project": which.project,
        "--url": which.store.url,
        "--data-dir": which.store.data_dir,
    }
    return [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
