"""``leasehold files lock | unlock | ls | history | restore``. Each loads what it needs when it runs."""

# ruff: noqa: PLC0415 - see above

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.cli import options
from leasehold.cli.errors import CommandError
from leasehold.cli.exit_codes import Exit
from leasehold.cli.parser import Argument, Group, Option

if TYPE_CHECKING:
    from leasehold.cli.files.open_session import Which
    from leasehold.files.sessions.entries import Access

files = Group(
    "leasehold files",
    """Read and write locks for files, for several agents or tools on one project.

Everybody who works on the files must lock them in the same way: nobody is kept from a file by force. A lock belongs
to a session, which only its secret acts for.

leasehold files lock src/app.py -- make format

leasehold files lock src/app.py --ttl 120 --purpose 'rename a class'

leasehold files unlock src/app.py
""",
)


@files.command(
    options.FILE_PATH,
    Argument(
        "COMMAND",
        "What to run meanwhile, and its arguments, after two dashes.",
        is_required=False,
        is_many=True,
    ),
    Option("--read", "Lock it for reading: others may read it, nobody may write it.", bool),
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
    Option("--purpose", "What for, shown to others.", metavar="TEXT"),
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

    With a command the file is locked until it ends, and its exit code is passed on;
    see leasehold run --help for the rest. It finds its fence in LEASEHOLD_FENCE and the
    file in LEASEHOLD_NAME.

    Without one the file stays locked for --ttl seconds, or until leasehold files unlock.
    A secret for the session is made and kept if there is none yet.

    leasehold files lock notes.md -- $EDITOR notes.md

    leasehold files lock --read data.csv --wait forever -- ./report.sh
    """
    import asyncio

    from leasehold.cli.files import lock as files_locking

    which = _which(**where)
    access: Access = "read" if read else "write"
    terms = {"ttl": ttl, "wait": options.seconds_to_wait(wait), "purpose": purpose}
    if command:
        return asyncio.run(files_locking.lock_and_run(which, path, command, access, grace=grace, **terms))
    files_locking.lock_for_a_while(which, path, access, in_json=json, **terms)
    return Exit.DONE


@files.command(
    Argument("PATH", "The files.", is_required=False, is_many=True),
    Option("--all", "Everything that the session holds, and its history.", bool, parameter="every"),
    *options.PLACE,
    options.JSON,
    *options.SESSION,
    *options.STORE,
)
def unlock(path: list[str], *, every: bool, json: bool, **where: Any) -> None:
    """Give back files that the session holds, whichever process locked them.

    What is not locked by the session is left alone, and is no error. A command that
    runs under such a lock is stopped as when it is lost.

    With --json: one object with session and released, the paths that were locked.

    leasehold files unlock src/app.py src/test_app.py

    leasehold files unlock --all
    """
    from leasehold.cli.files.open_session import spelled
    from leasehold.cli.format import printable
    from leasehold.cli.output import say, show_json

    if bool(path) == every:
        raise CommandError(Exit.USAGE, "invalid_request", "say which files, or --all")
    with _which(**where).open_session() as mine:
        if every:
            released, others = mine.release_session_locks(), []
        else:
            answers = {each: mine.release(spelled(each)) for each in path}
            released = [each for each, was_held in answers.items() if was_held]
            others = [each for each, was_held in answers.items() if not was_held]
        if json:
            show_json({"session": mine.id, "released": released})
            return
        for each in released:
            say(f"{printable(each)} is unlocked")
        for each in others:
            say(f"{printable(each)} was not locked by session {mine.id}; nothing to do")
        if every and not released:
            say(f"session {mine.id} held nothing")


@files.command(
    Argument(
        "PATTERN",
        "Which paths: *, ? and [ab] as in a shell. Quote it.",
        default="*",
        is_required=False,
    ),
    options.JSON,
    *options.STORE,
)
def ls(pattern: str, *, json: bool, **where: Any) -> None:
    """List the files that are locked, by whom, for what and for how long.

    Of everybody on the store, sorted by path; needs no session. On a terminal a
    table. Elsewhere a line for each, with tabs between path, for (read or write),
    holder, purpose, since, remaining (seconds), waiters and fence; - stands for
    nothing. With --json one object a line.

    leasehold files ls '*/src/*'
    """
    from leasehold.cli.files import output

    with _which(**where).open_files() as every:
        output.show_files(every.list(), pattern, in_json=json)


@files.command(options.JSON, *options.SESSION, *options.STORE)
def history(*, json: bool, **where: Any) -> None:
    """Show what the session holds or has asked for, the oldest first.

    It is what restore goes by. On a terminal a table. Elsewhere a line for each,
    with tabs between path, for (read or write), state (held, or asked), since,
    purpose and fence. With --json one object a line.

    leasehold files history --session agent-7 --secret-file agent-7.secret
    """
    from leasehold.cli.files import output

    with _which(**where).open_session() as mine:
        output.show_history(mine.history(), mine.id, in_json=json)


@files.command(
    Option(
        "--wait",
        "Seconds to wait for each file that somebody else has.",
        float,
        5,
        metavar="SECONDS",
    ),
    options.JSON,
    *options.SESSION,
    *options.STORE,
)
def restore(*, wait: float, json: bool, **where: Any) -> int:
    """Take back what the session held when its process ended, and say what became of each file.

    restored: the lock was still there, with the same fence. reacquired: it had
    ended, and there is a new one with a new fence; the file may have been changed.
    lost: somebody else has it. failed: not known, try again.

    What is taken back stays locked for as long as it was asked for at first, or until
    leasehold files unlock. A process of the session that is still alive loses it.
    Ends with 4 if a file was lost, and with 5 if the store left one open.

    leasehold files restore --session agent-7 --json
    """
    from leasehold.cli.files import output

    with _which(**where).open_session() as mine:
        reports = mine.restore(timeout=wait, renew=False)
        output.show_restored(reports, mine.id, in_json=json)
    outcomes = {report.outcome for report in reports}
    if "failed" in outcomes:
        return Exit.STORE
    return Exit.LOST if "lost" in outcomes else Exit.DONE


def _which(
    *,
    root: str | None = None,
    project: str | None = None,
    session: str | None = None,
    secret_file: str | None = None,
    **store: Any,
) -> Which:
    from pathlib import Path

    from leasehold.cli.files.open_session import Which
    from leasehold.cli.store_options import Store

    return Which(
        Store(**store),
        None if root is None else Path(root),
        project,
        session,
        None if secret_file is None else Path(secret_file),
    )
