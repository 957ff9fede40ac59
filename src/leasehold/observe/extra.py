"""A missing extra is told by its name."""

from __future__ import annotations


def missing_extra(module: str, missing: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error for ``module``, which cannot be imported because a package of its extra is not there."""
    return ModuleNotFoundError(
        f"{module} needs {missing.name}: pip install 'leasehold[observe]'", name=missing.name
    )
