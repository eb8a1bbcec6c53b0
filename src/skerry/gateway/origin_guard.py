"""Checks `Host` and `Origin` of each request, and sets the headers of all HTTP responses.

Any web page can make a browser connect to 127.0.0.1. It cannot choose these two headers: `Host`
contains another site after DNS rebinding, and `Origin` contains the page.
"""

import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skerry.config.gateway import GatewayConfig

_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT: Final = 80

_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # One request a connection: no further request has to be limited in time.
    "connection": "close",
}


class OriginGuard:
    """Refuses requests with a foreign `Host` or `Origin` before any other code reads them."""

    def __init__(self, app: ASGIApp, config: Callable[[], GatewayConfig]) -> None:
        self._app = app
        self._config = config

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Passes the request on, or refuses it: 421 for a foreign host, 403 for a foreign origin.

        It is no coroutine, so that an open WebSocket keeps no frame of this guard in memory.
        """
        if scope["type"] == "lifespan":
            return self._app(scope, receive, send)
        status = _refusal(scope, self._config())
        if scope["type"] == "websocket":
            if status:
                return send({"type": "websocket.close", "code": 1008})  # answered as HTTP 403
            return self._app(scope, receive, send)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cross-origin-resource-policy", "same-origin")
            await send(message)

        if status:
            return PlainTextResponse(_TEXTS[status], status)(scope, receive, guarded)
        return self._app(scope, receive, guarded)


_TEXTS: Final = {
    421: "This gateway answers to its own names and those in gateway.controlUi.allowedOrigins.\n",
    403: "This gateway takes no requests from other web sites; see"
    " gateway.controlUi.allowedOrigins.\n",
}


def _refusal(scope: Scope, config: GatewayConfig) -> int:
    """Returns the HTTP status of the refusal; 0 for none."""
    headers = Headers(scope=scope)
    port = scope["server"][1]
    hosts = {f"{name}:{port}" for name in _NAMES}
    if port == _HTTP_PORT:
        hosts.update(_NAMES)
    host = headers.get("host", "").lower()
    if config.exposed and _is_own(host, port):
        hosts.add(host)
    allowed = set(config.control_ui.allowed_origins)
    if host not in hosts and host not in {urlsplit(origin).netloc for origin in allowed}:
        return 421
    own_origins = {f"http://{name}" for name in hosts} | allowed
    if any(origin.lower() not in own_origins for origin in headers.getlist("origin")):
        return 403
    return 0


def _is_own(host: str, port: int) -> bool:
    """Returns True for an IP address or this machine's name, with the gateway's port.

    An address is safe: only the DNS entry of a name can be changed by its owner.
    """
    parts = urlsplit(f"//{host}")
    try:
        given_port, name = parts.port or _HTTP_PORT, parts.hostname or ""
    except ValueError:
        return False
    if (
        given_port != port
        or parts.username is not None
        or parts.path
        or parts.query
        or parts.fragment
    ):
        return False
    try:
        return "%" not in name and bool(ip_address(name))
    except ValueError:
        host_name = socket.gethostname().lower()
        return name in {host_name, f"{host_name}.local"}
