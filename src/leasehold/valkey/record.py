"""What everybody may see of a lock's record.

A writer's record is ``2x<token><channel><ticket> <until_ms> <since_ms> <holder>``, see ``lua/shared/record.lua``.
Token and channel never leave the scripts; this is about the last two.
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
