"""Releases a lease, once, whichever other request about it is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.core.replies import DONE, Ended
from leasehold.errors import LeaseLost, StoreUnavailable

if TYPE_CHECKING:
    from leasehold.core.engine import Engine
    from leasehold.core.leases.lease import LeaseState


async def release(engine: Engine[Any], lease: LeaseState, *, has_turn: bool = False) -> None:
    """Release ``lease``; see `leasehold.core.engine.Engine.release`."""
    if not lease.is_ours:
        raise LeaseLost(lease.name, "released")
    # In this order: a renewal takes its turn first, and looks at this after that.
    lease.is_watched = False
    if not has_turn and (lease.exchanges or lease.is_releasing):
        return await _release_in_turn(engine, lease)
    if lease.is_given_back:
        return None
    try:
        # In this order: another thread may release it in between, and that is no loss.
        loss = lease.loss()
        is_repeated = lease.ended == "released"
        if loss is not None and not is_repeated:
            lease.end(loss)
            if loss != "taken":
                # Nothing depends on it now, so it is not waited for either.
                engine.add_orphan(lease.name, lease.token, lease.ttl, look_again=False)
            raise LeaseLost(lease.name, loss)
        is_repeated = is_repeated or (lease.is_used_by_threads and not lease.is_first_release())
        lease.end("released")
        lease.is_releasing = True
        started_at = engine.clock.now()
        try:
            reply = await engine.store.release(lease.name, lease.token, lease.fence, lease.receipt)
        except StoreUnavailable:
            if engine.clock.now() >= started_at + engine.timeout:
                raise
            reply = await engine.retry(
                lambda: engine.store.release(lease.name, lease.token, lease.fence, None), started_at
            )
            # Gone at the second request means that the first, whose reply was lost, has released it.
            reply = reply if reply is Ended.TAKEN else DONE
        finally:
            lease.is_releasing = False
            if lease.release_ended is not None:
                lease.end_release()
        if isinstance(reply, Ended) and not is_repeated:
            lease.report_loss(reply.value)
            raise LeaseLost(lease.name, reply.value)
    except LeaseLost:
        raise
    except BaseException as error:
        _give_up(engine, lease, error)
        raise
    lease.is_given_back = True
    return None


async def _release_in_turn(engine: Engine[Any], lease: LeaseState) -> None:
    """Release it when no other request about it is under way."""
    try:
        # Threads may both go on: the second finds the lease gone in the store, and does not take that for a loss.
        while lease.is_releasing and not lease.is_used_by_threads:
            await lease.wait_for_release()
        await lease.run_in_turn(lambda: release(engine, lease, has_turn=True))
    except LeaseLost:
        raise
    except BaseException as error:
        _give_up(engine, lease, error)
        raise


def _give_up(engine: Engine[Any], lease: LeaseState, error: BaseException) -> None:
    """Leave the release to the orphan cleaner: no caller will repeat it."""
    lease.is_watched = False
    lease.end("released")
    engine.schedule_cleanup(
        lease.name, lease.token, lease.ttl, was_silent=isinstance(error, StoreUnavailable)
    )
