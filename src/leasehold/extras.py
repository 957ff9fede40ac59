"""Imports of optional packages: if one is not installed, the error names the extra that brings it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def requires_extra(subject: str, extra: str) -> Generator[None]:
    """Imports inside, if they fail for a package that is not there, say that ``subject`` needs it and how to get it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"{subject} needs {missing.name}: pip install 'leasehold[{extra}]'", name=missing.name
        ) from missing
