"""Locks for programs: named purposes, and operations that run under them.

``leasehold.operations.blocking`` is the same for threads; ``leasehold.operations.fastapi`` and
``leasehold.operations.faststream`` need the extra ``leasehold[operations]``.
"""

from leasehold.operations.purposes import STANDARD, Purpose, Purposes
from leasehold.operations.running import Operations

__all__ = ["STANDARD", "Operations", "Purpose", "Purposes"]
