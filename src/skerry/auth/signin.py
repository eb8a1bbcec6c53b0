"""Sign-in to a provider in the browser: OAuth 2 with PKCE for a local program.

RFC 8252 (native applications): the browser is redirected to a port on the loopback address, which
is open during the sign-in only and accepts one answer; `state` and the verifier (RFC 7636) tie the
answer to the request.
"""

import base64
import hashlib
import hmac
import secrets
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import anyio.abc
import httpx2

from skerry.auth.refresh import TokenRefusedError, Tokens, exchange, exchange_key
from skerry.infra.clock import Clock
from skerry.infra.http import HttpClient
from skerry.model.errors import CredentialError, ModelConnectionError

WAIT_SECONDS: Final = 600.0
_LONGEST: Final = 16_384
_HEAD_LIMIT: Final = 16 * 1024
_HEAD_SECONDS: Final = 10.0
_SIGNED_IN_TEXT: Final = "You are signed in. You can close this page."
_FAILED: Final = "The sign-in failed; Skerry shows the reason. You can close this page."


@dataclass(frozen=True, slots=True)
class SignInService:
    """Addresses and client data of a provider's sign-in."""

    authorize_url: str
    token_url: str
    client_id: str
    """Client id; empty for a service that needs none."""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    port: int = 0
    """Local port that the browser is redirected to; 0 lets the system choose."""
    gives_key: bool = False
    """True when the service returns an API key for the code, as OpenRouter does, instead of
    tokens."""


PRESETS: Final = {
    "openrouter": SignInService(
        "https://openrouter.ai/auth",
        "https://openrouter.ai/api/v1/auth/keys",
        "",
        port=3000,
        gives_key=True,
    )
}
"""Services with a public sign-in for programs: https://openrouter.ai/docs/oauth."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """One sign-in, from the request to its tokens."""

    service: SignInService
    port: int
    """Local port that the browser is redirected to."""
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)
    state: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def path(self) -> str:
        """Returns the path that the browser returns to; a service without `state` gets it so."""
        return f"/callback/{self.state}" if self.service.gives_key else "/callback"

    @property
    def redirect(self) -> str:
        """Returns the address of the redirection."""
        host = "localhost" if self.service.gives_key else "127.0.0.1"
        return f"http://{host}:{self.port}{self.path}"

    @property
    def url(self) -> str:
        """Returns the address that a person opens in a browser."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        query = {"code_challenge": challenge, "code_challenge_method": "S256"}
        if self.service.gives_key:
            query["callback_url"] = self.redirect
        else:
            query |= {
                "response_type": "code",
                "client_id": self.service.client_id,
                "redirect_uri": self.redirect,
                "state": self.state,
            }
            if self.service.scopes:
                query["scope"] = " ".join(self.service.scopes)
        joint = "&" if "?" in self.service.authorize_url else "?"
        return f"{self.service.authorize_url}{joint}{urlencode(query)}"

    def code(self, answer: str) -> str:
        """Returns the code in an answer: an address, `code#state`, or the code alone.

        Raises:
            CredentialError: the service refused, or the answer belongs to another sign-in.
        """
        answer = answer.strip()
        if "://" not in answer and not answer.startswith("/"):
            code, mark, state = answer.partition("#")
            query = {"code": [code]} | ({"state": [state]} if mark else {})
        else:
            split = urlsplit(answer)
            query = parse_qs(split.query)
            if self.service.gives_key:
                query["state"] = [split.path.rpartition("/")[2]]
            query.setdefault("state", [""])
        if error := query.get("error"):
            raise CredentialError(
                f"The service refused the sign-in: {error[0][:100]!r}.", _RETRY_REMEDY
            )
        if not hmac.compare_digest(
            query.get("state", [self.state])[0].encode(), self.state.encode()
        ):
            raise CredentialError("The answer is for another sign-in.", _RETRY_REMEDY)
        if not (code := query.get("code", [""])[0]):
            raise CredentialError("It contains no code.", _RETRY_REMEDY)
        return code

    async def finish(self, http: httpx2.AsyncClient, code: str, now: int) -> Tokens:
        """Exchanges the code at the service for tokens.

        Raises:
            CredentialError: the service refuses, or cannot be reached.
        """
        service = self.service
        try:
            if service.gives_key:
                return await exchange_key(http, service.token_url, code, self.verifier)
            form = {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self.redirect,
                "client_id": service.client_id,
                "code_verifier": self.verifier,
            }
            if service.client_secret:
                form["client_secret"] = service.client_secret
            return await exchange(http, service.token_url, form, now)
        except (TokenRefusedError, ModelConnectionError) as error:
            raise CredentialError(f"The sign-in failed: {error}.", _RETRY_REMEDY) from error


_RETRY_REMEDY: Final = "Start it again: skerry auth login."


@dataclass(slots=True)
class Callback:
    """A local port to which the browser is redirected."""

    port: int
    _answers: "anyio.abc.ObjectReceiveStream[str]"

    async def answer(self) -> str:
        """Returns the path and query of the browser's request."""
        return await self._answers.receive()


@asynccontextmanager
async def callback(port: int, path: str = "/callback") -> AsyncGenerator[Callback]:
    """Listens on the loopback address for the block; only targets that begin with `path` are valid.

    Raises:
        OSError: the port is in use.
    """
    send, receive = anyio.create_memory_object_stream[str](1)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    bound: int = listener.extra(  # noqa: S610 - anyio's, not Django's
        anyio.abc.SocketAttribute.local_port
    )

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(_HEAD_SECONDS):
                target = await _target(stream, bound)
                is_valid = target is not None and target.startswith(path) and "?" in target
                if is_valid and target is not None:
                    with send.clone() as sender:
                        await _hand_over(sender, target)
                text = _SIGNED_IN_TEXT if is_valid and "error=" not in str(target) else _FAILED
                await stream.send(_page(text, ok=is_valid))

    with send, receive:
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            yield Callback(bound, receive)
            tasks.cancel_scope.cancel()


async def typed() -> str:
    """Returns the line that a person enters in the terminal; never returns without a terminal."""
    while True:
        try:
            await anyio.wait_readable(sys.stdin)
        except OSError:  # a file or /dev/null: nobody types there
            break
        line = sys.stdin.readline(_LONGEST)
        if line.strip():
            return line
        if not line:  # nothing comes any more; the browser still can
            break
    await anyio.sleep_forever()
    return ""


def printed(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Returns a function that prints the address of a sign-in in the terminal."""

    def show(url: str) -> None:
        tell(f"Open this in a browser:\n\n  {url}\n")
        tell("If the browser is on another machine, it ends at an address that it cannot reach:")
        tell("paste that address here.")

    return show


async def obtained(
    service: SignInService,
    clock: Clock,
    show: Callable[[str], None],
    pasted: Callable[[], Awaitable[str]],
) -> Tokens:
    """Signs in with an address, and the answer of the browser or a paste; returns the tokens.

    Raises:
        CredentialError: the service refused, or there was no answer within ten minutes.
    """
    try:
        async with callback(service.port) as waiting, HttpClient() as http:
            attempt = SignIn(service, waiting.port)
            show(attempt.url)
            try:
                code = attempt.code(await _answer(waiting, pasted))
                return await attempt.finish(http, code, clock.now_ms())
            except CredentialError as error:
                failure = error  # the task group of the port would wrap it
    except OSError as error:
        message = f"Port {service.port} cannot be used: {error.strerror}."
        raise CredentialError(message, "Stop the program that uses it, and start again.") from error
    raise failure


async def _answer(waiting: Callback, pasted: Callable[[], Awaitable[str]]) -> str:
    """Returns the first answer, from the browser or from a paste."""
    queries: list[str] = []

    async def take(source: Callable[[], Awaitable[str]]) -> None:
        queries.append(await source())
        tasks.cancel_scope.cancel()

    with anyio.move_on_after(WAIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, waiting.answer)
            tasks.start_soon(take, pasted)
    if not queries:
        raise CredentialError("The browser sent no answer within ten minutes.", "Try again.")
    return queries[0]


async def _hand_over(send: "anyio.abc.ObjectSendStream[str]", target: str) -> None:
    with anyio.move_on_after(1.0):  # the first answer counts
        await send.send(target)


async def _target(stream: anyio.abc.SocketStream, port: int) -> str | None:
    """Returns the target of a GET request of a browser on this machine to this port."""
    head = b""
    try:
        while b"\r\n\r\n" not in head and len(head) < _HEAD_LIMIT:
            head += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    is_own_host = headers.get("host") in {f"127.0.0.1:{port}", f"localhost:{port}"}
    return rest.rpartition(" ")[0] if method == "GET" and is_own_host else None


def _page(text: str, *, ok: bool) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>Skerry</title><p>{text}</p>".encode()
    status = "200 OK" if ok else "400 Bad Request"
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n"
        "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n"
    ).encode() + body
