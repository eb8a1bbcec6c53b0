"""The gateway as one ASGI application: WebSocket and page at `/`, `/healthz`, `/readyz`."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
from skerry.gateway.auth import Failures
from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import PROTOCOL, Json, StateVersion
from skerry.gateway.methods.system import refresh_health
from skerry.gateway.origin_guard import Gate
from skerry.gateway.pages import Pages
from skerry.gateway.peer import peer as peer_of
from skerry.gateway.protocol import STATE_KEY
from skerry.model.session import SessionEntry, TranscriptEntry

if TYPE_CHECKING:
    from skerry.gateway.dispatch import MethodTable

logger = logging.getLogger(__name__)

_HEALTH_SECONDS: Final = 60.0
_PRESENCE_SECONDS: Final = 0.5
_SERVING: Final = "skerry.gateway.connection"
"""Module that serves a client, with the methods of a conversation: imported with the first
client."""
_MAX_HANDSHAKES: Final = 256
_NEWS_BYTES: Final = 256 * 1024
"""Limit on a message in an event; every subscriber gets a copy."""


def create_app(context: GatewayContext, pages: Path | None = None) -> Starlette:
    """Returns the application; it must be served by `Listener`, whose protocol connections use.

    Args:
        context: What methods and connections use.
        pages: The folder of the page; without one, the page that comes with Skerry.
    """
    folder = pages or Path(skerry.__file__).parent / "web"
    return Starlette(
        routes=[
            Route("/healthz", _healthz),
            Route("/readyz", _readyz(context)),
            WebSocketRoute("/", _Sockets(context)),
            Route("/{path:path}", Pages(folder).serve),
        ],
        middleware=[Middleware(Gate, config=lambda: context.config().gateway)],
        lifespan=_lifespan(context),
    )


class _Sockets:
    """Accepts WebSockets; only so many may be in their handshake at a time.

    One too many takes the place of the one that has waited longest: who means it has introduced
    itself by then, and whoever fills the places cannot keep others out.
    """

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._methods: MethodTable | None = None
        self._failures = Failures()
        self._handshakes: dict[anyio.CancelScope, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one client."""
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        protocol = scope["state"][STATE_KEY]
        peer = peer_of(scope, self._context.config().gateway.trusted_proxies)
        methods = await self._table()
        from skerry.gateway.connection import Connection  # noqa: PLC0415 - as `_SERVING` says

        client = Connection(self._context, methods, self._failures, peer, protocol, receive)
        if len(self._handshakes) >= _MAX_HANDSHAKES:
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            oldest.cancel()
        admitted = None
        with anyio.CancelScope() as handshake:
            self._handshakes[handshake] = None
            try:
                admitted = await client.shake_hands()
            finally:
                self._handshakes.pop(handshake, None)
        if handshake.cancelled_caught:
            protocol.end(1013, "too many handshakes")
        if admitted is not None:
            await client.serve(admitted)

    async def _table(self) -> "MethodTable":
        """Returns the methods, made for the first client; the loop does not stand meanwhile."""
        if self._methods is None:
            await anyio.to_thread.run_sync(import_module, _SERVING)
            from skerry.gateway.dispatch import MethodTable  # noqa: PLC0415 - as `_SERVING` says

            plugins = self._context.plugins
            self._methods = MethodTable(plugins.methods) if plugins else MethodTable()
        return self._methods


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
            tasks.start_soon(_look_after_health, context)
            tasks.start_soon(_tell_presence, context)
            tasks.start_soon(_tell_news, context)
            yield
            tasks.cancel_scope.cancel()

    return lifespan


async def _tick(context: GatewayContext) -> None:
    """Lets clients notice a gateway that is gone."""
    while True:
        await anyio.sleep(context.config().gateway.tick_interval_ms / 1000)
        context.broadcast.tick()


async def _look_after_health(context: GatewayContext) -> None:
    while True:
        await anyio.sleep(_HEALTH_SECONDS)
        try:
            report = await refresh_health(context)
        except Exception:
            logger.exception("health cannot be looked at")
        else:
            context.broadcast.tell("health", report, _version(context))


async def _tell_presence(context: GatewayContext) -> None:
    """Tells who is here, twice a second at most: for each of many who come, it goes to them all."""
    presence = context.presence
    told = presence.version
    while True:
        await presence.after(told)
        told = presence.version
        context.broadcast.tell("presence", {"presence": presence.entries()}, _version(context))
        await anyio.sleep(_PRESENCE_SECONDS)


async def _tell_news(context: GatewayContext) -> None:
    """Tells of sessions in the words of version 4: version 3 has no such events."""
    while True:
        try:
            await context.news.run(context.store, _news_row, _news_line)
        except Exception:
            # Who does not hear of a session can still read it; the gateway goes on.
            logger.exception("session events could not be sent")


def _news_row(session: SessionEntry) -> Json:
    from skerry.gateway.methods import rows  # noqa: PLC0415 - only who is there hears news

    return rows.row(session, PROTOCOL)


def _news_line(entry: TranscriptEntry) -> bytes:
    """Returns a message as its event has it; large images are left to who reads the history."""
    from skerry.gateway.attachments import has_images, without_images  # noqa: PLC0415 - likewise
    from skerry.gateway.methods.chat import transcript_line  # noqa: PLC0415 - likewise

    line = transcript_line(entry, PROTOCOL)
    if len(line) > _NEWS_BYTES and has_images(entry.message):
        return without_images(line)
    return line


def _version(context: GatewayContext) -> StateVersion:
    return StateVersion(context.presence.version, context.health.version)
