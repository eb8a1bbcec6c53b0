"""Runs the services of features and of plugins from the start of the gateway until it stops."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import anyio

from skerry.gateway.context import GatewayContext
from skerry.infra.clock import Clock
from skerry.infra.supervise import Supervisor, keep_running
from skerry.sdk.features import Features, registered
from skerry.sdk.registrations import Service


class Services:
    """Services by their owners: features, and plugins, which may be loaded and removed."""

    def __init__(self, clock: Clock) -> None:
        self._supervisor = Supervisor(clock)
        self._registered: dict[str, list[tuple[str, Service]]] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._changed = anyio.Event()

    def start(self, owner: str, services: Iterable[tuple[str, Service]]) -> None:
        """Runs named services until `stop`; a service that returns is not restarted."""
        self._registered[owner] = list(services)
        self._changed.set()

    def stop(self, owner: str) -> None:
        """Cancels the services of an owner; one that ignores the cancellation is abandoned."""
        self._registered.pop(owner, None)
        scope = self._scopes.pop(owner, None)
        if scope is not None:
            scope.cancel()

    async def run(self) -> None:
        """Runs the services until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                self._changed = anyio.Event()
                for owner in self._registered.keys() - self._scopes.keys():
                    scope = self._scopes[owner] = anyio.CancelScope()
                    tasks.start_soon(self._run, scope, self._registered[owner])
                await self._changed.wait()

    async def _run(self, scope: anyio.CancelScope, services: list[tuple[str, Service]]) -> None:
        with scope:
            async with anyio.create_task_group() as tasks:
                for name, run in services:
                    label = f"service {name}"
                    tasks.start_soon(
                        keep_running, partial(self._supervisor.call, run, label), label
                    )


def of_features(
    context: GatewayContext, features: Features | None = None
) -> Iterable[tuple[str, Service]]:
    """Yields the services of features, each with its name."""
    for name, load in (features or registered()).services:
        yield name, partial(_started, load, context)


async def _started(load: Callable[[], Any], context: GatewayContext) -> None:
    await load()(context)
