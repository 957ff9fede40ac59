"""The command line: ``leasehold run | show | ls | release | doctor | serve | files``.

It uses the library as any other program would, and it is the place that reads the environment.
"""

from __future__ import annotations

import sys
from typing import NoReturn

_EXTRA = {"rich"}


def main() -> NoReturn:
    """Run the command that the process was started with, and end with its exit code."""
    try:
        from leasehold.cli.entry import run  # noqa: PLC0415 - only here can a missing extra be told

        code = run(sys.argv[1:])
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write("leasehold: the command line needs more packages: pip install 'leasehold[cli]'\n")
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
