"""``leasehold files lock | unlock | ls | history | restore``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli import files_options, options
from leasehold.cli.exits import Exit
from leasehold.cli.failures import FailureError
from leasehold.cli.showing import show_json
from leasehold.cli.stores import Store
from leasehold.cli.wording import printable

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.cli.files_opening import Which
    from leasehold.files.history import Access

files = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)


@files.callback(invoke_without_command=True)
def help_about_files(context: typer.Context) -> None:
    """Read and write locks for files, for several agents or tools on one project.

    Everybody who works on the files must lock them in the same way: nobody is kept from a file by force. A lock belongs
    to a session, which only its secret acts for.

    leasehold files lock src/app.py -- make format

    leasehold files lock src/app.py --ttl 120 --purpose 'rename a class'

    leasehold files unlock src/app.py
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@files.command()
def lock(
    path: files_options.FilePath,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]",
            help="What to run meanwhile, and its arguments, after two dashes.",
            show_default=False,
        ),
    ] = None,
    *,
    read: Annotated[
        bool, typer.Option("--read", help="Lock it for reading: others may read it, nobody may write it.")
    ] = False,
    ttl: Annotated[
        float | None,
        typer.Option(
            help="Seconds it stays locked, at most 300; with a command it is renewed. Default: LOCK_TTL_MS, else 30.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        str,
        typer.Option(
            metavar="SECONDS|forever",
            help="How long to wait for the file; 0 asks once.",
            envvar="LEASEHOLD_WAIT",
        ),
    ] = "5",
    purpose: Annotated[
        str | None, typer.Option(help="What for, shown to others.", show_default=False)
    ] = None,
    grace: Annotated[
        float, typer.Option(help="Seconds between SIGTERM and SIGKILL when the lock is lost.")
    ] = 5,
    root: files_options.Root = None,
    project: files_options.Project = None,
    session: files_options.Session = None,
    secret_file: files_options.SecretFile = None,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,
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
    from leasehold.cli import files_locking  # noqa: PLC0415 - every other command does without, and starts faster

    which = _which(Store(url, data_dir, namespace, timeout), root, project, session, secret_file)
    access: Access = "read" if read else "write"
    terms = {"ttl": ttl, "wait": options.seconds_to_wait(wait), "purpose": purpose}
    if command:
        return asyncio.run(files_locking.lock_and_run(which, path, command, access, grace=grace, **terms))
    files_locking.lock_for_a_while(which, path, access, in_json=json, **terms)
    return Exit.DONE


@files.command()
def unlock(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH…", help="The files.", show_default=False)
    ] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Everything that the session holds, and its history.")
    ] = False,
    root: files_options.Root = None,
    project: files_options.Project = None,
    session: files_options.Session = None,
    secret_file: files_options.SecretFile = None,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,
) -> None:
    """Give back files that the session holds, whichever process locked them.

    What is not locked by the session is left alone, and is no error. A command that
    runs under such a lock is stopped as when it is lost.

    With --json: one object with session and released, the paths that were locked.

    leasehold files unlock src/app.py src/test_app.py

    leasehold files unlock --all
    """
    from leasehold.cli.files_opening import spelled  # noqa: PLC0415 - as above

    if bool(paths) == every:
        raise FailureError(Exit.USAGE, "invalid_request", "say which files, or --all")
    with _which(
        Store(url, data_dir, namespace, timeout), root, project, session, secret_file
    ).open_session() as mine:
        if every:
            released, others = mine.release_session_locks(), []
        else:
            answers = {path: mine.release(spelled(path)) for path in paths or ()}
            released = [path for path, was_held in answers.items() if was_held]
            others = [path for path, was_held in answers.items() if not was_held]
        if json:
            show_json({"session": mine.id, "released": released})
            return
        for path in released:
            typer.echo(f"{printable(path)} is unlocked")
        for path in others:
            typer.echo(f"{printable(path)} was not locked by session {mine.id}; nothing to do")
        if every and not released:
            typer.echo(f"session {mine.id} held nothing")


@files.command()
def ls(
    pattern: Annotated[
        str,
        typer.Argument(metavar="PATTERN", help="Which paths: *, ? and \\[ab] as in a shell. Quote it."),
    ] = "*",
    *,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,
) -> None:
    """List the files that are locked, by whom, for what and for how long.

    Of everybody on the store, sorted by path; needs no session. On a terminal a
    table. Elsewhere a line for each, with tabs between path, for (read or write),
    holder, purpose, since, remaining (seconds), waiters and fence; - stands for
    nothing. With --json one object a line.

    leasehold files ls '*/src/*'
    """
    from leasehold.cli import files_showing  # noqa: PLC0415 - as above

    with _which(Store(url, data_dir, namespace, timeout), None, None).open_files() as every:
        files_showing.show_files(every.list(), pattern, in_json=json)


@files.command()
def history(
    *,
    session: files_options.Session = None,
    secret_file: files_options.SecretFile = None,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,
) -> None:
    """Show what the session holds or has asked for, the oldest first.

    It is what restore goes by. On a terminal a table. Elsewhere a line for each,
    with tabs between path, for (read or write), state (held, or asked), since,
    purpose and fence. With --json one object a line.

    leasehold files history --session agent-7 --secret-file agent-7.secret
    """
    from leasehold.cli import files_showing  # noqa: PLC0415 - as above

    with _which(
        Store(url, data_dir, namespace, timeout), None, None, session, secret_file
    ).open_session() as mine:
        files_showing.show_history(mine.history(), mine.id, in_json=json)


@files.command()
def restore(
    *,
    patience: Annotated[
        float, typer.Option("--wait", help="Seconds to wait for each file that somebody else has.")
    ] = 5,
    session: files_options.Session = None,
    secret_file: files_options.SecretFile = None,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,
) -> int:
    """Take back what the session held when its process ended, and say what became of each file.

    restored: the lock was still there, with the same fence. reacquired: it had
    ended, and there is a new one with a new fence; the file may have been changed.
    lost: somebody else has it. failed: not known, try again.

    What is taken back stays locked for as long as it was asked for at first, or until
    leasehold files unlock. A process of the session that is still alive loses it.
    Ends with 4 if a file was lost, and with 5 if the store left one open.

    leasehold files restore --session agent-7 --json
    """
    from leasehold.cli import files_showing  # noqa: PLC0415 - as above

    with _which(
        Store(url, data_dir, namespace, timeout), None, None, session, secret_file
    ).open_session() as mine:
        reports = mine.restore(timeout=patience, renew=False)
        files_showing.show_restored(reports, mine.id, in_json=json)
    outcomes = {report.outcome for report in reports}
    if "failed" in outcomes:
        return Exit.STORE
    return Exit.LOST if "lost" in outcomes else Exit.DONE


def _which(
    store: Store,
    root: Path | None,
    project: str | None,
    session: str | None = None,
    secret_file: Path | None = None,
) -> Which:
    from leasehold.cli.files_opening import Which  # noqa: PLC0415 - as above

    return Which(store, root, project, session, secret_file)
