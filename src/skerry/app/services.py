"""Runs the services of features and of plugins from the start of the gateway until it stops."""

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

from skerry.gateway.context import GatewayContext
from skerry.infra.supervise import Supervisor, keep_running
from skerry.sdk.features import Features, registered

Service = Callable[[], Coroutine[Any, Any, None]]


def services(context: GatewayContext, features: Features | None = None) -> Iterator[Service]:
    """Yields what keeps each service running; a service that returns has ended.

    When the gateway stops, one that swallows its cancellation is abandoned.
    """
    runs: list[tuple[str, Service]] = [
        (name, partial(_started, load, context))
        for name, load in (features or registered()).services
    ]
    runs += context.plugins.services if context.plugins else ()
    supervisor = Supervisor(context.clock)
    for name, run in runs:
        what = f"service {name}"
        yield partial(keep_running, partial(supervisor.call, run, what), what)


async def _started(load: Callable[[], Any], context: GatewayContext) -> None:
    await load()(context)
