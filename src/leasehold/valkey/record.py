"""Reading what a lock's record says about its holder.

The scripts write it as ``1x<token><fence> <since_ms> <holder>`` and hand out only what follows the token.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from leasehold.errors import Holder


class Holding(NamedTuple):
    """Who holds a lock, since when (Unix seconds), and by which fence."""

    fence: int
    since: float
    holder: Holder


def parse_holding(public: bytes) -> Holding | None:
    """The public part of a record; None where there is none."""
    if not public:
        return None
    fence, since_ms, holder = public.split(b" ", 2)
    return Holding(int(fence), int(since_ms) / 1000, json.loads(holder))
