"""`python -m bench`: measures, prints and records the results."""

import argparse
import logging
import sys
from pathlib import Path

import uvloop

from bench import plots, record, table
from bench.plan import FULL, QUICK, Bench
from bench.progress import Progress
from bench.result import Result
from bench.server import Server
from bench.targets import ALL, GROUPS, Target

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PLOTS = HERE.parent / "docs" / "images"

DESCRIPTION = """\
Measures Leasehold against the limit (bare hiredis) and its peers, interleaved on one
server and one event loop, and the document service against bare ones; prints every
target beside its result."""

EPILOG = (
    "targets:\n"
    + "\n".join(f"  {target.id:<4} {target.work}" for target in ALL)
    + "\ngroups:\n"
    + "\n".join(f"  {group:<8} {' '.join(targets)}" for group, targets in GROUPS.items())
    + """

examples:
  python -m bench                          everything: table, bench/results.json, docs/images/*.svg (minutes)
  python -m bench --quick --json out.json  the locks within 45 seconds; writes nothing else
  python -m bench --quick server           the document service within a minute
  python -m bench P1 P2                    two targets in full length; writes nothing unless asked

Ratios count, absolute figures are the machine's. P1 and P4 are judged by the median of the ratios of
each round, P2 and P3 by the best round of each side, P5 by the median of the rounds, in PINGs of the
same run, P8 and P9 by the median of the ratios of each round. Server µs/call come from INFO commandstats."""
)


def main() -> int:
    options = _parser().parse_args()
    # The library warns about a server without persistence, which is intended here.
    logging.getLogger("leasehold").setLevel(logging.ERROR)
    wanted = _wanted(options.targets, is_quick=options.quick)
    chosen = [target for target in ALL if target.id in wanted]
    plan = QUICK if options.quick else FULL
    with Server() as server, Progress() as progress:
        results = uvloop.run(_measure(chosen, Bench(server, plan, progress)))
        server_version = server.version
    table.show(results)
    is_whole = chosen == ALL and not options.quick
    if path := options.json or (RESULTS if is_whole else None):
        record.write(path, results, plan=plan, server_version=server_version)
    if directory := options.plots or (PLOTS if is_whole else None):
        plots.write(directory, results)
    has_missed = any(check.verdict != "pass" for result in results for check in result.checks)
    return 1 if options.strict and has_missed else 0


async def _measure(targets: list[Target], bench: Bench) -> list[Result]:
    return [result for target in targets for result in await target.run(bench)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        type=_target,
        help="only these, by id or group (default: all; with --quick: locks)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="shorter rounds, and fewer for the peers no target names"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every raw figure here")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write the SVG plots here")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 when a target is missed or not measured"
    )
    return parser


def _target(text: str) -> tuple[str, ...]:
    known = [target.id for target in ALL]
    if text.lower() in GROUPS:
        return GROUPS[text.lower()]
    if text.upper() not in known:
        raise argparse.ArgumentTypeError(f"unknown target {text!r}; known: {', '.join((*known, *GROUPS))}")
    return (text.upper(),)


def _wanted(given: list[tuple[str, ...]], *, is_quick: bool) -> set[str]:
    groups = given or ([GROUPS["locks"]] if is_quick else list(GROUPS.values()))
    return {target for group in groups for target in group}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
