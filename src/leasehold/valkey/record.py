"""The public part of a lock's record: its holder and the time of the grant.

A writer's record is ``2x<token><channel><ticket> <until_ms> <since_ms> <holder>``, see ``lua/shared/record.lua``.
Token and channel never leave the scripts; the last two fields are public.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from leasehold.errors import Holder


class Holding(NamedTuple):
    """The holder of a lock, and the time of the grant (Unix seconds)."""

    since: float
    holder: Holder


def parse_holding(public: bytes) -> Holding | None:
    """The parsed public part of a record; None if it is empty."""
    if not public:
        return None
    since_ms, holder = public.split(b" ", 1)
    return Holding(int(since_ms) / 1000, json.loads(holder))
