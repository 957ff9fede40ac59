"""``python -m examples.escrow``: the service under load, with and without the guards."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from multiprocessing import forkserver

DESCRIPTION = """\
Runs the escrow service and its workers, sends each message one to three times, pauses and kills workers, and
checks the books in the end. Without --guards: once with fence checks, then for at most 20 s without.
Exit code: 0 if the books balance, 1 if not, 3 if they do but no stale write occurred, so that nothing was shown."""

CONTROL_SECONDS = 20.0


def main() -> int:
    asked = _parse()
    # Both processes import SQLAlchemy and more, which takes seconds: let them do it in parallel.
    import examples.escrow.load.processes  # noqa: F401, PLC0415 - see above

    forkserver.ensure_running()
    from examples.escrow.load import driver, processes, serve, verdict  # noqa: PLC0415 - see above
    from rich.console import Console  # noqa: PLC0415 - see above

    console = Console(stderr=asked.json)
    options = driver.Options(asked.seconds, asked.workers, asked.seed, asked.database_url, asked.store_url)
    try:
        if asked.serve:
            asyncio.run(serve.serve_escrow(options, console))
            return 0
        verdicts = [asyncio.run(driver.run(options, asked.guards or "on", console))]
        if not asked.json:
            verdict.show(verdicts[0], console)
        if asked.guards is None:
            control = replace(options, seconds=min(options.seconds, CONTROL_SECONDS))
            verdicts.append(asyncio.run(driver.run(control, "off", console)))
            if not asked.json:
                verdict.show(verdicts[1], console)
                verdict.compare(verdicts[0], verdicts[1], console)
    except KeyboardInterrupt:
        return 130
    except (driver.NotEmptyError, processes.NotStartedError) as error:
        console.print(f"escrow: {error}", style="red")
        return 2
    if asked.json:
        shown = [each.as_json() for each in verdicts]
        print(json.dumps(shown[0] if asked.guards else shown, indent=2))
    return verdicts[0].exit_code


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m examples.escrow", description=DESCRIPTION, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="duration of the load (60)")
    parser.add_argument("--workers", type=int, default=8, help="processes (8)")
    parser.add_argument("--seed", type=int, default=1, help="of the random customers and faults (1)")
    parser.add_argument(
        "--database-url",
        help="sqlite+aiosqlite:///… or postgresql+asyncpg://…, without escrow tables (a temporary file)",
    )
    parser.add_argument("--store-url", help="redis://… (an embedded Valkey)")
    parser.add_argument("--guards", choices=["on", "off"], help="whether the database checks fences")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--serve", action="store_true", help="no load: just the service, until Ctrl-C")
    asked = parser.parse_args()
    if not 2 <= asked.workers <= 32 or not 1 <= asked.seconds <= 3600:
        parser.error("2 to 32 workers, 1 to 3600 seconds")
    return asked


if __name__ == "__main__":
    sys.exit(main())
