"""A loopback OAuth 2 service with PKCE: it hands out codes, takes them once, and rotates tokens.

It checks what a careful service checks, so that a client that skips a step fails against it.
"""

import base64
import hashlib
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import anyio.abc
import msgspec


@dataclass(slots=True)
class _Grant:
    """A code that was given out."""

    client_id: str
    redirect: str
    challenge: str


class StubOAuthServer(anyio.AsyncContextManagerMixin):
    """Serves while its block is on, on a port that the system chooses.

    `approve` is what a person's browser does. A refresh token counts once, as RFC 9700 advises: the
    second use of one revokes the sign-in.
    """

    def __init__(self, client_id: str = "client", *, expires_in: int = 3600) -> None:
        self.client_id = client_id
        self.expires_in = expires_in
        """Seconds that an access token counts."""
        self.base_url = ""
        self.forms: list[dict[str, str]] = []
        """Forms sent to the token endpoint, oldest first."""
        self.status = 200
        """Answer of the token endpoint; another than 200 is sent without a check."""
        self.held: anyio.Event | None = None
        """While it is set and not fired, the token endpoint does not answer."""
        self.access: set[str] = set()
        """The access tokens that were given out."""
        self.reused = False
        """True when a refresh token was used twice."""
        self._refresh: set[str] = set()
        self._spent: set[str] = set()
        self._grants: dict[str, _Grant] = {}

    @property
    def authorize_url(self) -> str:
        """Returns the address that the browser opens."""
        return f"{self.base_url}/authorize"

    @property
    def token_url(self) -> str:
        """Returns where codes and refresh tokens are exchanged."""
        return f"{self.base_url}/token"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(  # noqa: S610 - anyio's, not Django's
            anyio.abc.SocketAttribute.local_port
        )
        self.base_url = f"http://127.0.0.1:{port}"
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, self._serve)
            yield self
            group.cancel_scope.cancel()

    def issue(self) -> tuple[str, str]:
        """Returns an access token and a refresh token, as after a sign-in."""
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.access.add(access)
        self._refresh.add(refresh)
        return access, refresh

    def revoke(self) -> None:
        """Ends every sign-in."""
        self._refresh.clear()

    def approve(self, url: str) -> str:
        """Returns where the browser is sent after a person agreed at `url`.

        Raises:
            ValueError: the request to authorize is not as the standard has it.
        """
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        right = query.get("response_type") == "code" and query.get("client_id") == self.client_id
        if not right or query.get("code_challenge_method") != "S256" or not query.get("state"):
            raise ValueError("no request for a code with PKCE and state")
        code = secrets.token_urlsafe(12)
        redirect = query["redirect_uri"]
        self._grants[code] = _Grant(query["client_id"], redirect, query["code_challenge"])
        return f"{redirect}?{urlencode({'code': code, 'state': query['state']})}"

    async def _serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                body = await _body(stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self.forms.append(form)
            if self.held is not None:
                await self.held.wait()
            status, answer = self._answer(form)
            data = msgspec.json.encode(answer)
            head = f"HTTP/1.1 {status} Stub\r\ncontent-type: application/json\r\n"
            await stream.send(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)

    def _answer(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if self.status != 200:
            return self.status, {"error": "temporarily_unavailable"}
        match form.get("grant_type"):
            case "authorization_code" if self._redeem(form):
                return 200, self._tokens()
            case "refresh_token" if self._renew(form):
                return 200, self._tokens()
            case _:
                return 400, {"error": "invalid_grant"}

    def _redeem(self, form: dict[str, str]) -> bool:
        grant = self._grants.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        pending = _Grant(form.get("client_id", ""), form.get("redirect_uri", ""), challenge)
        return grant == pending

    def _renew(self, form: dict[str, str]) -> bool:
        token = form.get("refresh_token", "")
        if token in self._spent:
            self.reused = True
            self._refresh.clear()
        if token not in self._refresh or form.get("client_id") != self.client_id:
            return False
        self._refresh.discard(token)
        self._spent.add(token)
        return True

    def _tokens(self) -> dict[str, Any]:
        access, refresh = self.issue()
        return {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": self.expires_in,
        }


async def _body(stream: anyio.abc.SocketStream) -> str:
    """Returns the body of the next request."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += await stream.receive()
    lines = data[:end].decode("latin-1").lower().split("\r\n")
    size = next((int(line.partition(":")[2]) for line in lines if line.startswith("content-le")), 0)
    while len(data) < end + 4 + size:
        data += await stream.receive()
    return data[end + 4 : end + 4 + size].decode()
