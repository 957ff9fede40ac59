"""The command line: ``leasehold run | show | ls | release | doctor | serve | files``.

It uses the library as any other program does, and is the part that reads the environment.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command in ``sys.argv`` and exit with its code."""
    try:
        from leasehold.cli.entry import run  # noqa: PLC0415 - so that Ctrl-C during the imports is caught as well

        code = run(sys.argv[1:])
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "rich":
            raise
        sys.stderr.write(f"leasehold: {missing}\n")
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
