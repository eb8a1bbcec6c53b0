"""The gateway as one ASGI application: WebSocket and page at `/`, `/healthz`, `/readyz`."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.to_thread
import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

import skerry
from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import Json, StateVersion
from skerry.gateway.late import connection, plugin_http, subscriptions
from skerry.gateway.methods.system import refresh_health
from skerry.gateway.origin_guard import OriginGuard
from skerry.gateway.pages import Pages
from skerry.sdk.features import registered

logger = logging.getLogger(__name__)

_HEALTH_SECONDS: Final = 60.0
_PRESENCE_SECONDS: Final = 0.5
_SERVING: Final = "skerry.gateway.connection"
"""Module that serves clients, with the methods of a conversation."""
_ANY: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
"""HTTP methods of routes of plugins."""


class Serves(Protocol):
    """Object of a feature that serves the HTTP requests below its path (`http_prefix`)."""

    async def serve(self, request: Request, /) -> Response:
        """Answers a request below the path of the feature."""
        ...


def create_app(context: GatewayContext, pages: Path | None = None) -> Starlette:
    """Returns the ASGI application; it must be served by `Listener`, whose protocol it needs.

    Args:
        context: Services of methods and connections.
        pages: Folder of the page; None for Skerry's own page.

    """
    folder = pages or Path(skerry.__file__).parent / "web"
    return Starlette(
        routes=[
            Route("/healthz", _healthz),
            Route("/readyz", _readyz(context)),
            WebSocketRoute("/", _WebSockets(context)),
            Route("/plugins/{plugin}/{path:path}", _plugin_http(context), methods=_ANY),
            *[
                Route(f"{path}/{{path:path}}", _feature_http(context, load), methods=_ANY)
                for path, load in registered().http.items()
            ],
            Route("/{path:path}", Pages(folder).serve),
        ],
        middleware=[Middleware(OriginGuard, config=lambda: context.config().gateway)],
        lifespan=_lifespan(context),
    )


class _WebSockets:
    """Accepts WebSockets; the module that serves them is imported with the first client."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._accept: connection.Accept | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serves one client."""
        accept = self._accept or self._accept_first
        return accept(scope, receive, send)

    async def _accept_first(self, scope: Scope, receive: Receive, send: Send) -> None:
        await anyio.to_thread.run_sync(import_module, _SERVING)  # the event loop goes on meanwhile
        self._accept = self._accept or connection.Accept(self._context)
        await self._accept(scope, receive, send)


def _plugin_http(context: GatewayContext) -> Callable[[Request], Awaitable[Response]]:
    """Returns the endpoint of plugins, which is imported with the first request."""

    @cache
    def served() -> "plugin_http.PluginRoutes":
        return plugin_http.PluginRoutes(context)

    async def serve(request: Request) -> Response:
        return await served().serve(request)

    return serve


def _feature_http(
    context: GatewayContext, load: Callable[[], Callable[[GatewayContext], Serves]]
) -> Callable[[Request], Awaitable[Response]]:
    """Returns the endpoint of a feature, which is imported with the first request."""

    @cache
    def served() -> Serves:
        return load()(context)

    async def serve(request: Request) -> Response:
        return await served().serve(request)

    return serve


async def _healthz(_request: Request) -> Response:
    return _json({"ok": True, "status": "live"})


def _readyz(context: GatewayContext) -> Callable[[Request], Awaitable[Response]]:
    async def readyz(_request: Request) -> Response:
        failing = await context.failing()
        payload = {
            "ready": not failing,
            "failing": failing,
            "uptimeMs": max(0, context.clock.now_ms() - context.started_ms),
            "storage": context.store.condition.storage,
        }
        return _json(payload, 503 if failing else 200)

    return readyz


def _json(payload: Json, status: int = 200) -> Response:
    return Response(
        msgspec.json.encode(payload),
        status,
        {"cache-control": "no-store"},
        "application/json",
    )


def _lifespan(
    context: GatewayContext,
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        await refresh_health(context)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_tick, context)
            tasks.start_soon(_send_health, context)
            tasks.start_soon(_send_presence, context)
            tasks.start_soon(_send_session_events, context)
            yield
            tasks.cancel_scope.cancel()

    return lifespan


async def _tick(context: GatewayContext) -> None:
    """Sends ticks, whose absence tells clients that the gateway has ended."""
    while True:
        await anyio.sleep(context.config().gateway.tick_interval_ms / 1000)
        context.broadcast.tick()


async def _send_health(context: GatewayContext) -> None:
    while True:
        await anyio.sleep(_HEALTH_SECONDS)
        try:
            report = await refresh_health(context)
        except Exception:
            logger.exception("the health report could not be made")
        else:
            context.broadcast.send("health", report, _version(context))


async def _send_presence(context: GatewayContext) -> None:
    """Sends the presence of clients, at most twice a second, since all clients get each change."""
    presence = context.presence
    version = presence.version
    while True:
        await presence.after(version)
        version = presence.version
        context.broadcast.send("presence", {"presence": presence.entries()}, _version(context))
        await anyio.sleep(_PRESENCE_SECONDS)


async def _send_session_events(context: GatewayContext) -> None:
    """Sends changes of sessions in the encoding of version 4; version 3 has no such events."""
    await context.session_events.due()  # by a client's subscription, so that one has connected
    while True:
        try:
            await context.session_events.run(
                context.store, subscriptions.session_row, subscriptions.session_line
            )
        except Exception:
            # A client that misses the event can still read the session; the gateway goes on.
            logger.exception("session events could not be sent")


def _version(context: GatewayContext) -> StateVersion:
    return StateVersion(context.presence.version, context.health.version)
