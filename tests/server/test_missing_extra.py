"""Without its extra, the server says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
sys.modules[sys.argv[1]] = None
try:
    import leasehold.server
    leasehold.server.create_app
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["pydantic_settings", "fastapi", "sqlalchemy"])
def test_a_missing_package_of_the_server_is_an_error_that_names_the_extra(package: str) -> None:
    ran = subprocess.run([sys.executable, "-c", CODE, package], capture_output=True, text=True, check=True)
    assert ran.stdout.strip().endswith(f"needs {package}: pip install 'leasehold[server]'"), ran.stderr
