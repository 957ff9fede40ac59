"""The context manager of the blocking client."""

from __future__ import annotations

import gc

from leasehold import blocking


class Held:
    """Counts how often it is abandoned."""

    is_abandoned = False
    abandoned = 0

    def abandon(self):
        self.abandoned += 1


def test_a_context_that_is_forgotten_without_an_exit_stops_the_renewal_and_leaves_nothing():
    before, held = len(blocking._guards), Held()
    blocking.LockContext(lambda: held).__enter__()
    gc.collect()
    assert held.abandoned == 1
    assert len(blocking._guards) == before
