"""Builds the ASGI application of the relayer from its routes."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from . import mcp, routes_memory, routes_open, routes_owners, routes_page
from .answers import failure, reply
from .gate import Admitted, admit
from .rate_limits import weight_of
from .relayer import Relayer

Open = Callable[[Relayer, Request], Awaitable[Response]]
Handler = Callable[[Relayer, Admitted, Request], Awaitable[Response]]

OPEN: Final[Sequence[tuple[str, str, Open]]] = (
    ("GET", "/health", routes_open.health),
    ("GET", "/version", routes_open.version),
    ("GET", "/config", routes_open.config),
    ("GET", "/metrics", routes_open.metrics),
    ("POST", "/sui", routes_open.sui),
    ("POST", "/api/mcp", mcp.mcp),
    ("GET", "/v1/blobs/{blob_id}", routes_open.blob),
    ("GET", "/", routes_page.page),
    ("GET", "/page/{name}", routes_page.part),
)
SIGNED: Final[Sequence[tuple[str, str, Handler]]] = (
    ("POST", "/api/remember", routes_memory.remember),
    ("POST", "/api/remember/bulk", routes_memory.remember_bulk),
    ("POST", "/api/remember/bulk/status", routes_memory.jobs),
    ("POST", "/api/remember/manual", routes_memory.remember_manual),
    ("GET", "/api/remember/{job_id}", routes_memory.job),
    ("POST", "/api/recall", routes_memory.recall),
    ("POST", "/api/recall/manual", routes_memory.recall_manual),
    ("POST", "/api/analyze", routes_memory.analyze),
    ("POST", "/api/ask", routes_memory.ask),
    ("POST", "/api/restore", routes_memory.restore),
    ("POST", "/api/forget", routes_memory.forget),
    ("POST", "/api/memories/forget", routes_memory.forget_memories),
    ("POST", "/api/memories/read", routes_memory.read_memories),
    ("POST", "/api/stats", routes_memory.stats),
    ("POST", "/api/embed", routes_memory.embed),
    ("GET", "/v1/me", routes_owners.me),
    ("GET", "/v1/owners/{owner}/namespaces", routes_owners.namespaces),
    ("GET", "/v1/owners/{owner}/memories", routes_owners.memories),
    ("GET", "/v1/owners/{owner}/agents", routes_owners.agents),
)
_ALLOWED_HEADERS: Final = (
    "content-type",
    "x-public-key",
    "x-signature",
    "x-timestamp",
    "x-nonce",
    "x-account-id",
    "x-seal-session",
    "x-request-id",
    "x-correlation-id",
)


def make_app(relayer: Relayer) -> Starlette:
    """Returns the application that serves `relayer`."""
    routes = [
        *(_route(method, path, _open(relayer, path, answer)) for method, path, answer in OPEN),
        *(_route(method, path, _signed(relayer, path, answer)) for method, path, answer in SIGNED),
    ]
    cors = Middleware(
        CORSMiddleware,
        allow_origins=relayer.origins,
        allow_methods=("GET", "POST", "OPTIONS"),
        allow_headers=_ALLOWED_HEADERS,
        expose_headers=("x-auth-error", "retry-after"),
    )
    app = Starlette(
        routes=routes,
        middleware=[cors] if relayer.origins else [],
        exception_handlers={404: _empty(404), 405: _empty(405)},
    )
    app.router.redirect_slashes = False  # the path is signed: a redirect could not be followed
    return app


def _route(method: str, path: str, answer: Callable[[Request], Awaitable[Response]]) -> Route:
    return Route(path, answer, methods=[method])


def _open(relayer: Relayer, path: str, answer: Open) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            response = await answer(relayer, request)
        except Exception as error:  # noqa: BLE001 - one request must not reach the others
            response = failure(error)
        relayer.counts[path, response.status_code] += 1
        return response

    return endpoint


def _signed(
    relayer: Relayer, path: str, answer: Handler
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            admitted = await admit(relayer, request)
            response = _limited(relayer, admitted, request)
            response = response or await answer(relayer, admitted, request)
        except Exception as error:  # noqa: BLE001 - one request must not reach the others
            response = failure(error)
        relayer.counts[path, response.status_code] += 1
        return response

    return endpoint


def _limited(relayer: Relayer, admitted: Admitted, request: Request) -> Response | None:
    """Returns the response 429 if the caller exceeds a limit, else None."""
    caller, weight = admitted.caller, weight_of(request.url.path)
    over = relayer.limits.charge(caller.public_key, caller.owner, weight, relayer.clock())
    if over is None:
        return None
    return reply(over.body(), 429, {"retry-after": str(over.retry_after)})


def _empty(status: int) -> Callable[[Request, Exception], Response]:
    def answer(_request: Request, _error: Exception) -> Response:
        return Response(b"", status)

    return answer
