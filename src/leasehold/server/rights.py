"""Telling the sockets of every worker that somebody may watch less, or more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leasehold.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasehold.server.services import Services

_log = logging.getLogger(__name__)


async def tell_rights_changed(services: Services, user_ids: Iterable[str]) -> None:
    """After they have. It is done whether or not the other workers hear of it: they ask again at every message."""
    for user_id in user_ids:
        try:
            await services.live.rights_changed(user_id)
        except StoreError as error:
            # Of the others, each is told all the same: this worker's own sockets hear of it in any case.
            _log.warning("not every worker was told that rights have changed: %s", error)
