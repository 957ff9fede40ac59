"""The commands ``leasehold files lock | unlock | ls | history | restore``. Each imports what it needs when it runs."""

# ruff: noqa: PLC0415 - see above

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.cli import options
from leasehold.cli.errors import CliError
from leasehold.cli.exit_codes import ExitCode
from leasehold.cli.parser import Argument, Group, Option

if TYPE_CHECKING:
    from leasehold.cli.files.open_session import SessionOptions
    from leasehold.files.sessions.entries import Access

files = Group(
    "leasehold files",
    """Read and write locks for files, for several agents or tools on one project.

The locks are advisory: everyone who works on the files must lock them in the same way. A lock belongs to a session,
and acting for a session needs its secret.

leasehold files lock src/app.py -- make format

leasehold files lock src/app.py --ttl 120 --purpose 'rename a class'

leasehold files unlock src/app.py
""",
)


@files.command(
    options.FILE_PATH,
    Argument(
        "COMMAND",
        "A command to run under the lock, and its arguments, after two dashes.",
        is_required=False,
        is_many=True,
    ),
    Option("--read", "Lock it for reading: others may read it, but not write it.", bool),
    Option(
        "--ttl",
        "Seconds it stays locked, at most 300; with a command it is renewed. Default: LOCK_TTL_MS, else 30.",
        float,
        metavar="SECONDS",
    ),
    Option(
        "--wait",
        "How long to wait for the file; 0 asks once.",
        default="5",
        variable="LEASEHOLD_WAIT",
        metavar="SECONDS|forever",
    ),
    Option("--purpose", "The purpose shown to others.", metavar="TEXT"),
    Option(
        "--grace", "Seconds between SIGTERM and SIGKILL when the lock is lost.", float, 5, metavar="SECONDS"
    ),
    *options.PLACE,
    options.JSON,
    *options.SESSION,
    *options.STORE,
)
def lock(
    path: str,
    command: list[str],
    *,
    read: bool,
    ttl: float | None,
    wait: str,
    purpose: str | None,
    grace: float,
    json: bool,
    **where: Any,
) -> int:
    """Lock a file for a while, or while a command runs: leasehold files lock PATH -- COMMAND…

    With a command the file is locked until the command ends, and leasehold exits with its
    code; see leasehold run --help for the rest. The command finds its fence in
    LEASEHOLD_FENCE and the file in LEASEHOLD_NAME.

    Without a command the file stays locked for --ttl seconds, or until leasehold files
    unlock. If the session has no secret yet, one is created and kept.

    leasehold files lock notes.md -- $EDITOR notes.md

    leasehold files lock --read data.csv --wait forever -- ./report.sh
    """
    import asyncio

    from leasehold.cli.files.lock import lock_and_run, lock_for_a_while

    session_options = _session_options(**where)
    access: Access = "read" if read else "write"
    lock_options = {"ttl": ttl, "wait": options.parse_wait(wait), "purpose": purpose}
    if command:
        return asyncio.run(lock_and_run(session_options, path, command, access, grace=grace, **lock_options))
    lock_for_a_while(session_options, path, access, in_json=json, **lock_options)
    return ExitCode.DONE


@files.command(
    Argument("PATH", "The files.", is_required=False, is_many=True),
    Option("--all", "All files that the session holds, and its history.", bool, parameter="every"),
    *options.PLACE,
    options.JSON,
    *options.SESSION,
    *options.STORE,
)
def unlock(path: list[str], *, every: bool, json: bool, **where: Any) -> None:
    """Unlock files that the session holds, no matter which process locked them.

    Files that the session has not locked are skipped without an error. A command
    that runs under such a lock is stopped, as when the lock is lost.

    With --json: one object with session and released, the paths that were locked.

    leasehold files unlock src/app.py src/test_app.py

    leasehold files unlock --all
    """
    from leasehold.cli.files.open_session import absolute_path
    from leasehold.cli.format import printable
    from leasehold.cli.output import print_json, print_line

    if bool(path) == every:
        raise CliError(ExitCode.USAGE, "invalid_request", "name the files, or give --all")
    with _session_options(**where).open_session() as mine:
        if every:
            released, others = mine.release_session_locks(), []
        else:
            answers = {each: mine.release(absolute_path(each)) for each in path}
            released = [each for each, was_held in answers.items() if was_held]
            others = [each for each, was_held in answers.items() if not was_held]
        if json:
            print_json({"session": mine.id, "released": released})
            return
        for each in released:
            print_line(f"{printable(each)} is unlocked")
        for each in others:
            print_line(f"{printable(each)} was not locked by session {mine.id}")
        if every and not released:
            print_line(f"session {mine.id} held no file")


@files.command(
    Argument(
        "PATTERN",
        "The paths to list: *, ? and [ab] as in a shell. Quote it.",
        default="*",
        is_required=False,
    ),
    options.JSON,
    *options.STORE,
)
def ls(pattern: str, *, json: bool, **where: Any) -> None:
    """List the locked files with holder, purpose and remaining time.

    Lists all files on the store, sorted by path, and needs no session. Prints a
    table on a terminal, otherwise one line for each file, with tabs between path,
    for (read or write), holder, purpose, since, remaining (seconds), waiters and
    fence; - means none. With --json one object per line.

    leasehold files ls '*/src/*'
    """
    from leasehold.cli.files import output

    with _session_options(**where).open_files() as every:
        output.print_files(every.list(), pattern, in_json=json)


@files.command(options.JSON, *options.SESSION, *options.STORE)
def history(*, json: bool, **where: Any) -> None:
    """Show the files that the session holds or has requested, oldest first.

    These are the files that restore takes back. Prints a table on a terminal,
    otherwise one line for each file, with tabs between path, for (read or write),
    state (held or asked), since, purpose and fence. With --json one object per line.

    leasehold files history --session agent-7 --secret-file agent-7.secret
    """
    from leasehold.cli.files import output

    with _session_options(**where).open_session() as mine:
        output.print_history(mine.history(), mine.id, in_json=json)


@files.command(
    Option(
        "--wait",
        "Seconds to wait for each file that another session holds.",
        float,
        5,
        metavar="SECONDS",
    ),
    options.JSON,
    *options.SESSION,
    *options.STORE,
)
def restore(*, wait: float, json: bool, **where: Any) -> int:
    """Take back the files that the session held when its process ended, and report on each.

    restored: the lock was still there, with the same fence. reacquired: it had
    ended, and there is a new lock with a new fence; the file may have been changed.
    lost: another session has it. failed: the outcome is unknown, try again.

    A file that is taken back stays locked for its original ttl, or until leasehold
    files unlock. A process of the session that is still alive loses it.
    The exit code is 4 if a file was lost, and 5 if the outcome of one is unknown.

    leasehold files restore --session agent-7 --json
    """
    from leasehold.cli.files import output

    with _session_options(**where).open_session() as mine:
        reports = mine.restore(timeout=wait, renew=False)
        output.print_restored(reports, mine.id, in_json=json)
    outcomes = {report.outcome for report in reports}
    if "failed" in outcomes:
        return ExitCode.STORE
    return ExitCode.LOST if "lost" in outcomes else ExitCode.DONE


def _session_options(
    *,
    root: str | None = None,
    project: str | None = None,
    session: str | None = None,
    secret_file: str | None = None,
    **store: Any,
) -> SessionOptions:
    from pathlib import Path

    from leasehold.cli.files.open_session import SessionOptions
    from leasehold.cli.store_options import StoreOptions

    return SessionOptions(
        StoreOptions(**store),
        None if root is None else Path(root),
        project,
        session,
        None if secret_file is None else Path(secret_file),
    )
