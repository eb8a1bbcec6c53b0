"""The door before everything: `Host`, `Origin`, and the headers of every HTTP response.

A web page anywhere can make a browser connect to 127.0.0.1. What it cannot do is choose these two
headers: `Host` names another site when a name was rebound to loopback, `Origin` names the page.
"""

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it: 421 for a foreign host, 403 for a foreign origin."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        status = _refusal(scope)
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
    421: "This gateway answers to 127.0.0.1 and localhost only.\n",
    403: "This gateway takes no requests from other web sites.\n",
}


def _refusal(scope: Scope) -> int:
    """Return the HTTP status of the refusal, or 0."""
    headers = Headers(scope=scope)
    port = scope["server"][1]
    hosts = {f"{name}:{port}" for name in _NAMES}
    if port == _HTTP_PORT:
        hosts.update(_NAMES)
    if headers.get("host", "").lower() not in hosts:
        return 421
    ours = {f"http://{host}" for host in hosts}
    if any(origin.lower() not in ours for origin in headers.getlist("origin")):
        return 403
    return 0
