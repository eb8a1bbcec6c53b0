"""Runs the services of features and of plugins from the start of the gateway until it stops."""

import logging
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final

import anyio

from skerry.gateway.context import GatewayContext
from skerry.infra.supervised_tasks import Leash
from skerry.sdk.features import Features, registered

logger = logging.getLogger(__name__)

FIRST_PAUSE: Final = 1.0
LAST_PAUSE: Final = 60.0
"""Seconds before a service that failed is started again; they double up to this."""

Service = Callable[[], Coroutine[Any, Any, None]]


def services(context: GatewayContext, features: Features | None = None) -> Iterator[Service]:
    """Yields what keeps each service running; a service that returns has ended."""
    leash = Leash(context.clock)
    for name, load in (features or registered()).services:
        yield partial(keep_running, name, partial(_started, load, context), leash)
    for name, run in context.plugins.services if context.plugins else ():
        yield partial(keep_running, name, run, leash)


async def _started(load: Callable[[], Any], context: GatewayContext) -> None:
    await load()(context)


async def keep_running(name: str, run: Service, leash: Leash) -> None:
    """Runs a service; starts it again after each failure, later each time.

    When the gateway stops, one that swallows its cancellation is left behind.
    """
    pause = FIRST_PAUSE
    while True:
        try:
            await leash.do(run, f"service {name}")
        except Exception:
            logger.exception("service %s failed; it is started again in %g s", name, pause)
        else:
            return
        await anyio.sleep(pause)
        pause = min(LAST_PAUSE, pause * 2)
