"""The door before everything: `Host`, `Origin`, and the headers of every HTTP response.

A web page anywhere can make a browser connect to 127.0.0.1. What it cannot do is choose these two
headers: `Host` names another site when a name was rebound to loopback, `Origin` names the page.
"""

import socket
from collections.abc import Callable
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
    "cross-origin-resource-policy": "same-origin",
    # One request a connection: what a client does after it need not be watched.
    "connection": "close",
}


class Gate:
    """Refuses what was not meant for this gateway, before anything else looks at it."""

    def __init__(self, app: ASGIApp, config: Callable[[], GatewayConfig]) -> None:
        self._app = app
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on or refuses it: 421 for a foreign host, 403 for a foreign origin."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        status = _refusal(scope, self._config())
        if scope["type"] == "websocket":
            if status:
                await send({"type": "websocket.close", "code": 1008})  # answered as HTTP 403
                return
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if status:
            await PlainTextResponse(_TEXTS[status], status)(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)


_TEXTS: Final = {
    421: "This gateway answers to its own names and those in gateway.controlUi.allowedOrigins.\n",
    403: "This gateway takes no requests from other web sites; see"
    " gateway.controlUi.allowedOrigins.\n",
}


def _refusal(scope: Scope, config: GatewayConfig) -> int:
    """Returns the HTTP status of the refusal, or 0."""
    headers = Headers(scope=scope)
    port = scope["server"][1]
    hosts = {f"{name}:{port}" for name in _NAMES}
    if port == _HTTP_PORT:
        hosts.update(_NAMES)
    host = headers.get("host", "").lower()
    if config.exposed and _is_own(host, port):
        hosts.add(host)
    allowed = set(config.control_ui.allowed_origins)
    if host not in hosts and host not in {urlsplit(one).netloc for one in allowed}:
        return 421
    ours = {f"http://{one}" for one in hosts} | allowed
    if any(origin.lower() not in ours for origin in headers.getlist("origin")):
        return 403
    return 0


def _is_own(host: str, port: int) -> bool:
    """Returns whether other machines may call us that: by address, or by this machine's name.

    An address is safe: only a name can be made to lead here by whoever owns it.
    """
    parts = urlsplit(f"//{host}")
    try:
        given, name = parts.port or _HTTP_PORT, parts.hostname or ""
    except ValueError:
        return False
    if given != port or parts.username is not None or parts.path or parts.query or parts.fragment:
        return False
    try:
        return "%" not in name and bool(ip_address(name))
    except ValueError:
        own = socket.gethostname().lower()
        return name in {own, f"{own}.local"}
