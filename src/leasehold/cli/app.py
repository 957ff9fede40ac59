"""The commands and their options. A command imports what it needs when it runs, so that the others start faster."""

# ruff: noqa: PLC0415 - see above

from __future__ import annotations

from typing import Any

from leasehold.cli import options
from leasehold.cli.exit_codes import ExitCode
from leasehold.cli.files.app import files
from leasehold.cli.parser import Argument, Group, Option

app = Group("leasehold", "Locks with leases on Valkey or Redis.", has_exit_codes=True)


@app.command(
    options.LOCK_NAME,
    Argument("COMMAND", "The command and its arguments, after two dashes.", is_many=True),
    Option(
        "--ttl",
        "Seconds a lease lasts; it is renewed after every third of that.",
        float,
        30,
        variable="LEASEHOLD_TTL",
        metavar="SECONDS",
    ),
    Option(
        "--wait",
        "How long to wait for the lock; 0 asks once.",
        default="5",
        variable="LEASEHOLD_WAIT",
        metavar="SECONDS|forever",
    ),
    Option(
        "--shared",
        "Hold it as a reader, together with other readers; without this it is held exclusively.",
        bool,
    ),
    Option("--holder", "The holder's name shown to others. Default: user@host:pid.", metavar="NAME"),
    Option("--max-hold", "Stop the command after this many seconds.", float, metavar="SECONDS"),
    Option(
        "--grace",
        "Seconds between SIGTERM and SIGKILL when the lease is lost.",
        float,
        5,
        metavar="SECONDS",
    ),
    Option(
        "--retry-interval",
        "Longest pause while waiting for the lock.",
        float,
        0.05,
        variable="LEASEHOLD_RETRY_INTERVAL",
        metavar="SECONDS",
    ),
    options.JSON,
    options.ALLOW_EVICTION,
    *options.STORE,
    has_exit_codes=True,
)
def run(
    name: str,
    command: list[str],
    *,
    ttl: float,
    wait: str,
    shared: bool,
    holder: str | None,
    max_hold: float | None,
    grace: float,
    retry_interval: float,
    allow_eviction: bool,
    json: bool,  # noqa: ARG001 - `entry` reports errors, and stdout belongs to the command
    **store: Any,
) -> int:
    """Hold a lock while a command runs: leasehold run NAME -- COMMAND…

    The command finds its fence in LEASEHOLD_FENCE and the lock's name in
    LEASEHOLD_NAME. leasehold forwards signals to it and exits with its code.

    Waiters get the lock in the order of asking: adjacent readers (--shared)
    together, and no reader before a writer who came first.

    If the lease is lost, the command and its descendants get SIGTERM, and
    SIGKILL after --grace. If the store cannot be reached, SIGTERM comes early
    enough that the command has ended when the lease does. If leasehold itself
    is killed, the kernel kills the command (on Linux), but not its descendants.

    Processes that the command leaves in the background run on without the lock.
    """
    import asyncio

    from leasehold.cli.run import hold
    from leasehold.cli.store_options import StoreOptions

    terms = hold.HoldOptions(
        ttl,
        options.parse_wait(wait),
        "shared" if shared else "exclusive",
        holder,
        max_hold,
        grace,
    )
    client = StoreOptions(**store).connect(retry_interval=retry_interval, allow_eviction=allow_eviction)
    return asyncio.run(hold.hold_and_run(client, name, command, terms))


@app.command(options.LOCK_NAME, options.JSON, *options.STORE)
def show(name: str, *, json: bool, **store: Any) -> None:
    """Show who holds a lock, since when and for how long, and how many wait for it.

    A shared lock is shown with all of its readers. remaining is the longest time
    until it is free, unless a lease is renewed, as most are.

    With --json: one object with name, is_held, mode, holder, held_since (Unix
    time), remaining (seconds), fence (text), waiters, and holds: one object for
    each holder with its holder, held_since, remaining and fence. A free lock is
    not an error.
    """
    from leasehold.cli import output
    from leasehold.cli.store_options import StoreOptions

    with StoreOptions(**store).connect_blocking(allow_eviction=True) as locks:
        info = locks.inspect(name)
    if json:
        output.print_json(output.lock_as_json(info))
    else:
        output.print_lock(info)


@app.command(
    Argument(
        "PATTERN",
        "The names to list: * for anything, ? for one byte, [ab] for one of these. Quote it: 'deal:*'.",
        default="*",
        is_required=False,
    ),
    options.JSON,
    *options.STORE,
)
def ls(pattern: str, *, json: bool, **store: Any) -> None:
    """List the locks that are held or waited for.

    Prints a table on a terminal, otherwise one line for each lock, without a
    heading and with tabs between name, holder, mode, since, remaining (seconds),
    waiters and fence; - means none, and control characters are escaped. With
    --json one object per line, as in show --json.

    Up to 1,000 locks are sorted by name. More are listed in the order in which
    the store returns them, so their number is not limited; rarely, one of these
    is listed twice. The store is read in small steps, and changes during the
    listing may or may not be seen.

    If nothing matches, a message on stderr says so; that is not an error.
    """
    from leasehold.cli.ls import print_locks
    from leasehold.cli.store_options import StoreOptions

    with StoreOptions(**store).connect_blocking(allow_eviction=True) as locks:
        print_locks(locks.list(pattern), pattern, in_json=json)


@app.command(
    options.LOCK_NAME,
    Option("--force", "Required: confirms that the current holder loses the lock.", bool),
    options.JSON,
    *options.STORE,
)
def release(name: str, *, force: bool, json: bool, **store: Any) -> None:
    """Take a lock away from its holder, or from all of its readers, and free it.

    The fence grows, so a resource that compares fences refuses the old holder as
    soon as it has seen the next one. Waiters get the lock in the order of asking.
    """
    from leasehold.cli import output
    from leasehold.cli.release import release_by_force, require_force
    from leasehold.cli.store_options import StoreOptions

    require_force(name, is_forced=force)
    with StoreOptions(**store).connect_blocking(allow_eviction=True) as locks:
        released = release_by_force(locks, name)
    if json:
        output.print_json(released.as_json())
    else:
        output.print_line(released.as_text())


@app.command(options.JSON, *options.STORE)
def doctor(*, json: bool, **store: Any) -> int:
    """Check whether the store is safe for locks, and advise on problems."""
    from contextlib import closing
    from dataclasses import asdict

    from leasehold.cli import output
    from leasehold.cli.store_options import StoreOptions

    # Closed but not entered: a server in trouble answers even PING with an error, and that is what to report.
    with closing(StoreOptions(**store).connect_blocking(allow_eviction=True)) as locks:
        findings = locks.diagnose()
    is_healthy = all(finding.status != "problem" for finding in findings)
    if json:
        output.print_json({"ok": is_healthy, "findings": [asdict(finding) for finding in findings]})
    else:
        output.print_findings(findings)
    return ExitCode.DONE if is_healthy else ExitCode.PROBLEM


@app.command(
    Option("--host", "The address to listen on. Default: 127.0.0.1."),
    Option("--port", "The port to listen on; 0 for any free port. Default: 8000.", int),
    Option("--workers", "Processes that share the port. Default: 1.", int, metavar="COUNT"),
    Option("--demo", "Create a demo team; only on an empty database and on loopback.", bool),
    options.JSON,
    Option(
        "--data-dir",
        "Directory of the embedded store, the SQLite database and the signing secret, unless they are set "
        "otherwise. Default: the user's data directory.",
        group="Store",
    ),
    Option(
        "--database-url",
        "The database of the documents: sqlite:///PATH or postgresql://… Default: SQLite in the data directory.",
        group="Store",
    ),
    Option(
        "--store-url",
        "The store of the locks: redis://, redis+sentinel://, redis+cluster:// (rediss… with TLS) or unix://. "
        "Default: REDIS_HOST and REDIS_PORT, else an embedded Valkey in the data directory.",
        group="Store",
    ),
)
def serve(*, json: bool, demo: bool, **settings: Any) -> None:
    """Run the document service in the foreground until Ctrl-C or SIGTERM.

    Every option can also be set in the environment, as LEASEHOLD_PORT and so on;
    docs/service.md lists all settings, also those without an option here.
    With --json: one object with address, store_url, data_dir, workers (process
    ids) and demo (accounts to sign in with), as soon as all workers answer.
    """
    from leasehold.cli.serve import run_service

    run_service(in_json=json, demo=demo or None, **settings)


app.members["files"] = files
