"""The commands. Each loads what it needs when it runs, so that the others start faster."""

# ruff: noqa: PLC0415 - see above

from __future__ import annotations

from typing import Any

from leasehold.cli import options
from leasehold.cli.exit_codes import Exit
from leasehold.cli.files.app import files
from leasehold.cli.parser import Argument, Group, Option

app = Group("leasehold", "Locks with leases on Valkey or Redis.", has_exit_codes=True)


@app.command(
    options.LOCK_NAME,
    Argument("COMMAND", "What to run, and its arguments, after two dashes.", is_many=True),
    Option(
        "--ttl",
        "Seconds a lease lasts; it is renewed every third.",
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
        "Hold it as a reader, together with other readers; who holds it without this holds it alone.",
        bool,
    ),
    Option("--holder", "Who to show as the holder. Default: user@host:pid.", metavar="NAME"),
    Option("--max-hold", "Stop the command after so many seconds.", float, metavar="SECONDS"),
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
    json: bool,  # noqa: ARG001 - errors are reported by `entry`, and stdout is the command's
    **store: Any,
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
    import asyncio

    from leasehold.cli.run import hold
    from leasehold.cli.store_options import Store

    terms = hold.Terms(
        ttl,
        options.seconds_to_wait(wait),
        "shared" if shared else "exclusive",
        holder,
        max_hold,
        grace,
    )
    client = Store(**store).connect(retry_interval=retry_interval, allow_eviction=allow_eviction)
    return asyncio.run(hold.hold_and_run(client, name, command, terms))


@app.command(options.LOCK_NAME, options.JSON, *options.STORE)
def show(name: str, *, json: bool, **store: Any) -> None:
    """Show who holds a lock, since when and for how long, and how many wait for it.

    A lock that is shared is shown with all of its readers. remaining is the time
    until it is free at the latest, unless a lease is renewed, as most are.

    With --json: one object with name, is_held, mode, holder, held_since (Unix
    time), remaining (seconds), fence (text), waiters, and holds, in which every
    holder has a holder, held_since, remaining and fence of its own. A free lock
    is no error.
    """
    from leasehold.cli import output
    from leasehold.cli.store_options import Store

    with Store(**store).connect_blocking(allow_eviction=True) as locks:
        info = locks.inspect(name)
    if json:
        output.show_json(output.lock_as_json(info))
    else:
        output.show_lock(info)


@app.command(
    Argument(
        "PATTERN",
        "Which names: * for anything, ? for one byte, [ab] for one of these. Quote it: 'deal:*'.",
        default="*",
        is_required=False,
    ),
    options.JSON,
    *options.STORE,
)
def ls(pattern: str, *, json: bool, **store: Any) -> None:
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
    from leasehold.cli import ls as listing
    from leasehold.cli.store_options import Store

    with Store(**store).connect_blocking(allow_eviction=True) as locks:
        listing.show_locks(locks.list(pattern), pattern, in_json=json)


@app.command(
    options.LOCK_NAME,
    Option("--force", "Yes, take it away from whoever holds it.", bool),
    options.JSON,
    *options.STORE,
)
def release(name: str, *, force: bool, json: bool, **store: Any) -> None:
    """Take a lock away from its holder, or from all of its readers, and set it free.

    The fence grows, so a resource that compares fences will refuse the old
    holder as soon as it has seen the next one. Whoever waits for the lock gets
    it, in the order of asking.
    """
    from leasehold.cli import output
    from leasehold.cli import release as releasing
    from leasehold.cli.store_options import Store

    releasing.check_is_meant(name, is_forced=force)
    with Store(**store).connect_blocking(allow_eviction=True) as locks:
        released = releasing.release_by_force(locks, name)
    if json:
        output.show_json(released.as_json())
    else:
        output.say(released.as_text())


@app.command(options.JSON, *options.STORE)
def doctor(*, json: bool, **store: Any) -> int:
    """Check whether the store can be trusted with locks, and say what to do."""
    from contextlib import closing
    from dataclasses import asdict

    from leasehold.cli import output
    from leasehold.cli.store_options import Store

    # Not entered, only closed: a server in trouble answers even PING with an error, and that is what to report on.
    with closing(Store(**store).connect_blocking(allow_eviction=True)) as locks:
        findings = locks.diagnose()
    is_healthy = all(finding.status != "problem" for finding in findings)
    if json:
        output.show_json({"ok": is_healthy, "findings": [asdict(finding) for finding in findings]})
    else:
        output.show_findings(findings)
    return Exit.DONE if is_healthy else Exit.PROBLEM


@app.command(
    Option("--host", "Where to listen. Default: 127.0.0.1."),
    Option("--port", "Where to listen; 0 for any free port. Default: 8000.", int),
    Option("--workers", "Processes that share the port. Default: 1.", int, metavar="COUNT"),
    Option("--demo", "Make a demo team, on an empty database and on loopback only.", bool),
    options.JSON,
    Option(
        "--data-dir",
        "What is not kept elsewhere: embedded store, SQLite database, secret. "
        "Default: the user's data directory.",
        group="Store",
    ),
    Option(
        "--database-url",
        "The documents: sqlite:///PATH or postgresql://… Default: SQLite in the data directory.",
        group="Store",
    ),
    Option(
        "--store-url",
        "The locks: redis://, rediss://, valkey://, valkeys:// or unix://. "
        "Default: REDIS_HOST and REDIS_PORT, else an embedded Valkey in the data directory.",
        group="Store",
    ),
)
def serve(*, json: bool, demo: bool, **settings: Any) -> None:
    """Run the document service in the foreground until Ctrl-C or SIGTERM.

    Every option can be set in the environment as well, as LEASEHOLD_PORT and so
    on; docs/service.md has the list, with all that has no option here.
    With --json: one object with address, store_url, data_dir, workers (process
    ids) and demo (how to sign in), as soon as all workers answer.
    """
    from leasehold.cli import serve as serving

    serving.serve(in_json=json, demo=demo or None, **settings)


app.members["files"] = files
