"""Runs pytest, and looks once more at the few tests that failed beside others: `python -m tests.steadily ARGUMENTS`.

Thousands of tests share two cores with servers, browsers and whatever else a machine does, and many are about time. One that
fails there is shown in full, and then has to pass alone, several times in a row, or the run has failed. Those that pass are named in the
end as unsteady: a reason to look, since a bug that shows itself rarely looks the same. More than a few failures are no accident.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

AT_MOST = 5
TIMES_ALONE = 3
TESTS_FAILED = 1  # pytest's exit code for that, and for nothing else


def main(arguments: list[str]) -> int:
    """Pytest's exit code, unless all that failed passes alone."""
    with tempfile.TemporaryDirectory() as directory:
        code = pytest(*arguments, "-o", f"cache_dir={directory}")
        if code != TESTS_FAILED:
            return code
        remembered = Path(directory) / "v/cache/lastfailed"
        failed = list(json.loads(remembered.read_text())) if remembered.exists() else []
    if not 0 < len(failed) <= AT_MOST:
        return code
    full = [argument for argument in arguments if argument == "--full"]
    for time in range(1, TIMES_ALONE + 1):
        say(f"alone, {time} of {TIMES_ALONE}", failed)
        if again := pytest("-n", "0", *full, *failed):
            return again
    say("UNSTEADY: failed beside others, passed alone. Look at the failures above", failed)
    return 0


def pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def say(what: str, tests: list[str]) -> None:
    print(f"\n{what}:", *tests, sep="\n  ", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
