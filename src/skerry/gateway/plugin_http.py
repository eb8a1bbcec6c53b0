"""HTTP routes and page panels of plugins, below `/plugins/<id>/`.

A route needs `Authorization: Bearer <token>`, unless it is public. A browser cannot send that
header when it imports a module, so the address of a panel contains a ticket, which only a client
with the token gets (`plugins.panels`); it is valid until the token changes or the gateway ends.
"""

import hmac
import secrets
from hashlib import sha256
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from skerry.gateway import bearer
from skerry.gateway.context import GatewayContext
from skerry.gateway.pages import Pages
from skerry.gateway.request_body import RefusedPost, read_body
from skerry.sdk.http import HttpRequest, HttpRoute
from skerry.sdk.registrations import Panel

_NONCE: Final = secrets.token_bytes(32)
_TEXT: Final = "text/plain"


def panel_url(context: GatewayContext, panel: Panel) -> str:
    """Returns the address of a panel's folder, which ends with a slash."""
    return f"/plugins/{panel.plugin}/panels/{_ticket(context, panel)}/"


def _ticket(context: GatewayContext, panel: Panel) -> str:
    secret = context.config().gateway.auth.secret or ""
    subject = f"{panel.plugin}\0{panel.title}\0{secret}".encode()
    return hmac.new(_NONCE, subject, sha256).hexdigest()


class PluginRoutes:
    """Serves the routes and panels of plugins."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._pages: dict[Panel, Pages] = {}

    async def serve(self, request: Request) -> Response:
        """Returns the response of the route; 401 without the token, 404 for an unknown route."""
        plugin, path = request.path_params["plugin"], request.path_params["path"]
        if path.startswith("panels/"):
            return await self._panel(request, plugin, path)
        plugins = self._context.plugins
        routes = plugins.routes.get(plugin, ()) if plugins else ()
        route = next((route for route in routes if route.path == path), None)
        if route is None or not route.is_public:
            refusal = await bearer.refusal(self._context, request)
            if refusal is not None:
                return refusal
        if route is None:
            return Response("Not found.\n", 404, media_type=_TEXT)
        if request.method not in route.methods:
            allow = {"allow": ", ".join(route.methods)}
            return Response("This route has other methods.\n", 405, allow, _TEXT)
        try:
            body = await read_body(request, route.max_body)
        except RefusedPost as refused:
            message = str(refused)
            text = f"{message[:1].upper()}{message[1:]}.\n"
            return Response(text, refused.status, media_type=_TEXT)
        return await _answer(request, route, body)

    async def _panel(self, request: Request, plugin: str, path: str) -> Response:
        """Returns a file of a panel for a request with its ticket."""
        ticket, _, file = path.removeprefix("panels/").partition("/")
        panels = self._context.plugins.panels if self._context.plugins else ()
        for panel in panels:
            expected = _ticket(self._context, panel)
            if panel.plugin == plugin and hmac.compare_digest(ticket.encode(), expected.encode()):
                pages = self._pages.setdefault(panel, Pages(panel.folder))
                request.scope["path"] = f"/{file}"
                return await pages.serve(request)
        return Response("Not found.\n", 404, media_type=_TEXT)


async def _answer(request: Request, route: HttpRoute, body: bytes) -> Response:
    headers = {name: text for name, text in request.headers.items() if name != "authorization"}
    response = await route.run(
        HttpRequest(request.method, route.path, dict(request.query_params), headers, body)
    )
    return Response(
        response.body,
        response.status,
        {"cache-control": "no-store", **response.headers},
        response.content_type,
    )
