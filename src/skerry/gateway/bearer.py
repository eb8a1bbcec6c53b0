"""Requires the token of the gateway in `Authorization: Bearer` of an HTTP request."""

from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import Response

from skerry.gateway.context import GatewayContext
from skerry.gateway.peer import peer as peer_of
from skerry.gateway.shared_secret import SecretCheck, check_secret

_TEXT: Final = "text/plain"


async def refusal(context: GatewayContext, request: Request) -> Response | None:
    """Returns the refusal of a request without the token, delayed after failures."""
    gateway = context.config().gateway
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    bearer = token.strip() if kind.lower() == "bearer" else None
    secret = check_secret(gateway.auth, bearer, None)
    peer = peer_of(request.scope, gateway.trusted_proxies)
    now, failures = anyio.current_time(), context.failures
    if secret is not SecretCheck.RIGHT or failures.locked(peer, now):
        if secret is SecretCheck.WRONG:
            await anyio.sleep(failures.delay(peer, now))
        headers = {"www-authenticate": "Bearer"}
        return Response(
            "Send the token of the gateway: Authorization: Bearer TOKEN.\n", 401, headers, _TEXT
        )
    return None
