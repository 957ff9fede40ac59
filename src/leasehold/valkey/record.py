"""What everybody may see of a lock's record.

The record of an exclusive hold is ``1x<token><since_ms> <holder>``. The token never leaves the scripts; this
is about the rest.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from leasehold.errors import Holder


class Holding(NamedTuple):
    """Who holds a lock, and since when (Unix seconds)."""

    since: float
    holder: Holder


def parse_holding(public: bytes) -> Holding | None:
    """The public part of a record; None where there is none."""
    if not public:
        return None
    since_ms, holder = public.split(b" ", 1)
    return Holding(int(since_ms) / 1000, json.loads(holder))
