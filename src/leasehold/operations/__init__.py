"""Locks for programs: named purposes, and operations that run under them.

``leasehold.operations.blocking`` is the same for threads; ``leasehold.operations.fastapi`` and
``leasehold.operations.faststream`` need the extra ``leasehold[operations]``.
"""

from leasehold.operations.operations import Operations
from leasehold.operations.purposes import STANDARD, Purpose, Purposes

__all__ = ["STANDARD", "Operations", "Purpose", "Purposes"]
