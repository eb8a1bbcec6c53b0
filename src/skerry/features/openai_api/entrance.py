"""Admits a request: the gateway's token, a method, a place among the open requests, and a body."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import anyio
import msgspec
from starlette.requests import Request

from skerry.config.gateway import GatewayConfig
from skerry.features.openai_api.api_errors import READ, ApiError
from skerry.features.openai_api.config import HttpConfig
from skerry.gateway.context import GatewayContext
from skerry.gateway.peer import peer as peer_of
from skerry.gateway.request_body import RefusedPost, read_body
from skerry.gateway.shared_secret import SecretCheck, check_secret, same_secret
from skerry.infra.untrusted_json import DEEPEST, UNREADABLE, is_deep

_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
"""Values of `Sec-Fetch-Site` of requests that a page of another site made."""


class Entrance:
    """Admits the requests of one gateway."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._open = 0

    async def admit(self, request: Request) -> None:
        """Checks that no page of another site made the request, and that it has the token.

        Wrong tokens are counted together with those of WebSocket clients.

        Raises:
            ApiError: 401, 403 or 429.
        """
        if request.headers.get("sec-fetch-site", "") in _OTHER_SITES:
            raise ApiError(403, "Pages of other sites may not call this API.", code="foreign_site")
        gateway, failures = self._context.config().gateway, self._context.failures
        peer, now = peer_of(request.scope, gateway.trusted_proxies), anyio.current_time()
        if wait_seconds := failures.locked(peer, now):
            message = "Too many requests with a wrong token came from this address."
            headers = {"retry-after": str(int(wait_seconds) + 1)}
            raise ApiError(429, message, code="too_many_failures", headers=headers)
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if kind.lower() == "bearer" else None
        checked = check_secret(gateway.auth, bearer, None)
        is_own = checked is SecretCheck.WRONG and _is_own_token(gateway, bearer or "")
        if is_own or checked is SecretCheck.RIGHT:
            failures.forget(peer)
            is_exempt = peer.local or gateway.control_ui.dangerously_disable_device_auth
            if not (is_own or is_exempt):
                message = "The gateway's token is for this machine only; use gateway.http.token."
                raise ApiError(403, message, code="remote_token")
            return
        if checked is SecretCheck.WRONG:
            await anyio.sleep(failures.delay(peer, now))
        message = "Send the token as API key: Authorization: Bearer TOKEN."
        headers = {"www-authenticate": "Bearer"}
        raise ApiError(401, message, code="invalid_api_key", headers=headers)

    @contextmanager
    def place(self, limit: int) -> Generator[None]:
        """Takes one of `limit` places for the block.

        Raises:
            ApiError: 429 without a free place.
        """
        if self._open >= limit:
            message = f"{limit} requests are open; the limit is gateway.http.maxOpenRequests."
            headers = {"retry-after": "1"}
            raise ApiError(429, message, code="too_many_requests", headers=headers)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


def _is_own_token(gateway: GatewayConfig, token: str) -> bool:
    """Returns whether the token is that of these endpoints."""
    own = gateway.section(HttpConfig).token
    return own is not None and same_secret(own.get_secret_value(), token)


def only(method: str, request: Request) -> None:
    """Checks the HTTP method. Raises ApiError 405 for another one."""
    if request.method != method:
        message = f"{request.url.path} accepts only {method}."
        raise ApiError(405, message, code="method_not_allowed", headers={"allow": method})


async def read_json(request: Request, max_bytes: int) -> tuple[dict[str, Any], bytes]:
    """Returns the JSON object of the body, and the body.

    Raises:
        ApiError: 408, 413, or 400 for a body that is not a JSON object.
    """
    try:
        body = await read_body(request, max_bytes)
    except RefusedPost as refused:
        text = str(refused)
        raise ApiError(refused.status, f"{text[:1].upper()}{text[1:]}.") from None
    setattr(request.state, READ, True)
    try:
        value = msgspec.json.decode(body)
    except UNREADABLE:
        raise ApiError(400, "The body is not JSON.", code="invalid_json") from None
    if not isinstance(value, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_json")
    if is_deep(value):
        raise ApiError(400, f"The body has more than {DEEPEST} levels.", code="invalid_json")
    return value, body
