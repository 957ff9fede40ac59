"""The commands."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - typer reads it
from typing import Annotated

import typer

from leasehold.cli import listing, options, releasing, running, serving, showing
from leasehold.cli.exits import AFTER_SIGNAL, MEANINGS, Exit
from leasehold.cli.files import files
from leasehold.cli.stores import Store

_EXIT_CODES = "\n".join(
    [
        "[bold]Exit codes[/bold]",
        *(f"  [cyan]{code.value:<5}[/cyan]  {meaning}" for code, meaning in MEANINGS.items()),
        f"  [cyan]{AFTER_SIGNAL}+n[/cyan]  run: the command was ended by signal n",
        "run passes on the exit code of the command.",
        "Errors go to stderr: one line, or with --json one object with code and message.",
    ]
)

app = typer.Typer(
    help="Locks with leases on Valkey or Redis.",
    epilog=_EXIT_CODES,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(files, name="files")


@app.callback(invoke_without_command=True)
def leasehold(context: typer.Context, *, version: options.Version = False) -> None:  # noqa: ARG001 - typer calls back when they are given
    """Locks with leases on Valkey or Redis."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog=_EXIT_CODES)
def run(
    name: options.LockName,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND", help="What to run, and its arguments, after two dashes.", show_default=False
        ),
    ],
    *,
    ttl: Annotated[
        float, typer.Option(help="Seconds a lease lasts; it is renewed every third.", envvar="LEASEHOLD_TTL")
    ] = 30,
    wait: Annotated[
        str,
        typer.Option(
            metavar="SECONDS|forever",
            help="How long to wait for the lock; 0 asks once.",
            envvar="LEASEHOLD_WAIT",
        ),
    ] = "5",
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Hold it as a reader, together with other readers; who holds it without this holds it alone.",
        ),
    ] = False,
    holder: Annotated[
        str | None,
        typer.Option(help="Who to show as the holder. Default: user@host:pid.", show_default=False),
    ] = None,
    max_hold: Annotated[
        float | None, typer.Option(help="Stop the command after so many seconds.", show_default=False)
    ] = None,
    grace: Annotated[
        float, typer.Option(help="Seconds between SIGTERM and SIGKILL when the lease is lost.")
    ] = 5,
    retry_interval: Annotated[
        float,
        typer.Option(help="Longest pause while waiting for the lock.", envvar="LEASEHOLD_RETRY_INTERVAL"),
    ] = 0.05,
    allow_eviction: Annotated[
        bool,
        typer.Option(
            "--allow-eviction", help="Use a server that may drop held locks.", rich_help_panel="Store"
        ),
    ] = False,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,  # noqa: ARG001 - typer calls back when they are given - its errors are reported by `entry`, its stdout is the command's
) -> int:
    """Hold a lock while a command runs: leasehold run NAME -- COMMAND…

    The command finds its fence in LEASEHOLD_FENCE and the lock's name in
    LEASEHOLD_NAME. Its exit code is passed on, and signals are passed on to it.

    Whoever waits gets the lock in the order of asking: readers (--shared) who
    stand next to each other together, and none of them before a writer who
    came first.

    If the lease is lost, the command and all it has started get SIGTERM, and
    SIGKILL after --grace. If the store cannot be reached, SIGTERM comes early
    enough that the command has ended when the lease does. If leasehold itself
    is killed, the kernel kills the command (on Linux), not what it has started.

    What the command leaves in the background runs on without the lock.
    """
    mode = "shared" if shared else "exclusive"
    terms = running.Terms(ttl, options.seconds_to_wait(wait), mode, holder, max_hold, grace)
    client = Store(url, data_dir, namespace, timeout).connect(
        retry_interval=retry_interval, allow_eviction=allow_eviction
    )
    return asyncio.run(running.hold_and_run(client, name, command, terms))


@app.command()
def show(
    name: options.LockName,
    *,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,
) -> None:
    """Show who holds a lock, since when and for how long, and how many wait for it.

    A lock that is shared is shown with all of its readers. remaining is the time
    until it is free at the latest, unless a lease is renewed, as most are.

    With --json: one object with name, is_held, mode, holder, held_since (Unix
    time), remaining (seconds), fence (text), waiters, and holds, in which every
    holder has a holder, held_since, remaining and fence of its own. A free lock
    is no error.
    """
    with Store(url, data_dir, namespace, timeout).connect_blocking(allow_eviction=True) as locks:
        info = locks.inspect(name)
    if json:
        showing.show_json(showing.lock_as_json(info))
    else:
        showing.show_lock(info)


@app.command()
def ls(
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="PATTERN",
            help="Which names: * for anything, ? for one byte, \\[ab] for one of these. Quote it: 'deal:*'.",
        ),
    ] = "*",
    *,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,
) -> None:
    """List the locks that are held or waited for.

    On a terminal a table. Elsewhere a line for each lock, without a heading and
    with tabs between name, holder, mode, since, remaining (seconds), waiters and
    fence; - stands for nothing, and what a terminal would obey is escaped. With
    --json one object a line, each as show --json has it.

    Up to 1,000 locks are sorted by name. More are listed as they come, so any
    number can be; of those one may, rarely, be listed twice. The store is read
    in small steps, and what changes meanwhile may or may not be seen.

    That nothing matches is said on stderr, and is no error.
    """
    with Store(url, data_dir, namespace, timeout).connect_blocking(allow_eviction=True) as locks:
        listing.show_locks(locks.list(pattern), pattern, in_json=json)


@app.command()
def release(
    name: options.LockName,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Yes, take it away from whoever holds it.", show_default=False)
    ] = False,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,
) -> None:
    """Take a lock away from its holder, or from all of its readers, and set it free.

    The fence grows, so a resource that compares fences will refuse the old
    holder as soon as it has seen the next one. Whoever waits for the lock gets
    it, in the order of asking.
    """
    releasing.check_is_meant(name, is_forced=force)
    with Store(url, data_dir, namespace, timeout).connect_blocking(allow_eviction=True) as locks:
        released = releasing.release_by_force(locks, name)
    if json:
        showing.show_json(released.as_json())
    else:
        typer.echo(released.as_text())


@app.command()
def doctor(
    *,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    namespace: options.Namespace = "lock",
    timeout: options.Timeout = 2,
    json: options.Json = False,
) -> int:
    """Check whether the store can be trusted with locks, and say what to do."""
    # Not entered, only closed: a server in trouble answers even PING with an error, and that is what to report on.
    with closing(Store(url, data_dir, namespace, timeout).connect_blocking(allow_eviction=True)) as locks:
        findings = locks.diagnose()
    is_healthy = all(finding.status != "problem" for finding in findings)
    if json:
        showing.show_json({"ok": is_healthy, "findings": [asdict(finding) for finding in findings]})
    else:
        showing.show_findings(findings)
    return Exit.DONE if is_healthy else Exit.PROBLEM


@app.command()
def serve(
    *,
    host: Annotated[
        str | None, typer.Option(help="Where to listen. Default: 127.0.0.1.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Where to listen; 0 for any free port. Default: 8000.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the port. Default: 1.", show_default=False)
    ] = None,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Make a demo team, on an empty database and on loopback only.", show_default=False
        ),
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="What is not kept elsewhere: embedded store, SQLite database, secret. "
            "Default: the user's data directory.",
            show_default=False,
            rich_help_panel="Store",
        ),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            help="The documents: sqlite:///PATH or postgresql://… Default: SQLite in the data directory.",
            show_default=False,
            rich_help_panel="Store",
        ),
    ] = None,
    store_url: Annotated[
        str | None,
        typer.Option(
            help="The locks: redis://, rediss://, valkey://, valkeys:// or unix://. "
            "Default: REDIS_HOST and REDIS_PORT, else an embedded Valkey in the data directory.",
            show_default=False,
            rich_help_panel="Store",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Run the document service in the foreground until Ctrl-C or SIGTERM.

    Every option can be set in the environment as well, as LEASEHOLD_PORT and so
    on; docs/operations.md has the list, with all that has no option here.
    With --json: one object with address, store_url, data_dir, workers (process
    ids) and demo (how to sign in), as soon as all workers answer.
    """
    serving.serve(
        in_json=json,
        host=host,
        port=port,
        workers=workers,
        demo=demo or None,
        data_dir=data_dir,
        database_url=database_url,
        store_url=store_url,
    )
