"""Things that are begun once, whoever comes first."""

from __future__ import annotations


def is_first(owner: object, what: str) -> bool:
    """Whether nobody has begun ``what`` for ``owner`` yet; from now on somebody has.

    One atomic step, because two threads may come at the same time.
    """
    begun = owner.__dict__
    mark = "_begun_" + what
    if mark in begun:
        return False
    mine = object()
    return begun.setdefault(mark, mine) is mine
