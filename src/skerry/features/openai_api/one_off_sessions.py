"""Removes the conversations of requests that named none, after `gateway.http.sessionRetention`.

Otherwise a program that sends a request a minute would displace the owner's conversations within
`session.maintenance`.
"""

import logging
from functools import partial
from typing import Final

import anyio

from skerry.features.openai_api.api_sessions import is_one_off
from skerry.features.openai_api.config import HttpConfig
from skerry.gateway.context import GatewayContext
from skerry.model.errors import StateError
from skerry.sessions import session_hooks
from skerry.sessions.retention import PRUNE
from skerry.store import retention

logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 660.0
HOUR_SECONDS: Final = 3_600.0


async def run(gateway: GatewayContext) -> None:
    """Removes old conversations each hour until cancelled."""
    await anyio.sleep(FIRST_SECONDS)
    while True:
        try:
            removed = await remove_old(gateway)
        except (StateError, OSError):
            logger.exception("conversations of the OpenAI API could not be removed")
        else:
            if removed:
                logger.info("%d old conversations of the OpenAI API were removed", removed)
        await anyio.sleep(HOUR_SECONDS)


async def remove_old(gateway: GatewayContext) -> int:
    """Removes the conversations that were last used before the retention; returns their number."""
    config, store, now = gateway.config(), gateway.store, gateway.clock.now_ms()
    before = now - config.gateway.section(HttpConfig).session_retention
    folder, removed = config.state_dir / "agents", 0
    for session in await store.read(retention.retained):
        if session.updated_at >= before or session.pinned or session.busy:
            continue
        if not is_one_off(session.key):
            continue
        if not session.archived_at:
            archive = partial(retention.archive_unused, session=session, now=now)
            ended = await store.write(archive)
            if ended is None:
                continue  # it was used meanwhile
            session_hooks.ended(gateway.hooks, ended, PRUNE)
        id_ = session.session_id
        await store.read(partial(retention.remove_file, agents_dir=folder, session_id=id_))
        removed += await store.write(partial(retention.remove, session_id=id_))
    return removed
