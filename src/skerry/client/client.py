"""Client of protocol 4: requests with a deadline, and events as they arrive."""

import platform
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from skerry import __version__
from skerry.client import device_key
from skerry.client.discover import GatewayAddress
from skerry.client.frames import (
    JSON,
    PROTOCOL,
    GatewayEvent,
    GatewayResponse,
    WireError,
    decode,
    request,
)
from skerry.infra.supervise import in_background
from skerry.model.errors import ClientError, GatewayRefusedError, GatewayUnreachableError

MAX_FRAME: Final = 26_214_400 + 65_536
"""Limit of one frame, in bytes: the gateway's limit and the envelope."""
EVENT_BUFFER: Final = 4096
"""Limit of unread events of a subscriber; beyond it the stream is closed."""
HANDSHAKE_SECONDS: Final = 10.0
SCOPES: Final = ("operator.read", "operator.write", "operator.admin")
UNKNOWN_METHOD: Final = "request.unknown_method"
"""Code of the refusal of a method that the gateway does not have."""
_OF_UNKNOWN_METHODS: Final = frozenset({"MISSING_SCOPE", UNKNOWN_METHOD})

_LET_IN: Final = (
    "Set the gateway's token in SKERRY_GATEWAY_TOKEN or with --token,"
    " or name its directory in SKERRY_STATE_DIR."
)
_REMEDIES: Final = {
    "AUTH_TOKEN_MISMATCH": _LET_IN,
    "AUTH_TOKEN_MISSING": _LET_IN,
    "DEVICE_IDENTITY_REQUIRED": _LET_IN,
    "PROTOCOL_MISMATCH": "Use a client and a gateway of the same version.",
    "usage.budget": "`skerry usage` shows where it went; usage.budgets has the limits.",
    "INVALID_REQUEST": "Correct it: the same request would be refused again.",
}
_MESSAGES: Final = {
    "DEVICE_IDENTITY_REQUIRED": "The gateway requires its token, and none is configured here.",
}
"""Messages by error code that replace unhelpful messages of the wire."""


class _Connect(connect):
    """A handshake without redirects: the token is sent to the given address only."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


@dataclass(slots=True)
class _Pending:
    """A pending request; `expect_final` skips the response whose status is only accepted."""

    expect_final: bool
    done: anyio.Event = field(default_factory=anyio.Event)
    outcome: GatewayResponse | GatewayUnreachableError | None = None


class GatewayClient(anyio.AsyncContextManagerMixin):
    """One connection. Use as `async with GatewayClient(address) as client:`.

    Entering connects; the end of the block closes. A lost connection is not opened again: pending
    requests raise `GatewayUnreachableError`, subscriptions end, and `closed` is set.

    Raises on entering:
        GatewayUnreachableError: no gateway answers there.
        GatewayRefusedError: the gateway refuses this client.
    """

    def __init__(self, address: GatewayAddress, *, scopes: Sequence[str] = SCOPES) -> None:
        self.address = address
        self.hello: JSON = None
        """Payload of `hello-ok`."""
        self._scopes = tuple(scopes)
        self._numbers = count(1)
        self._pending: dict[str, _Pending] = {}
        self._subscribers: list[MemoryObjectSendStream[GatewayEvent]] = []

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        self.closed = anyio.Event()
        self._socket = await self._greeted()
        try:
            async with in_background(self._receive):
                yield self
        finally:
            with anyio.CancelScope(shield=True):
                await self._socket.close()

    async def request(
        self,
        method: str,
        params: JSON = None,
        *,
        timeout: float | None = 30.0,  # noqa: ASYNC109 - a parameter is simpler for callers
        expect_final: bool = False,
    ) -> JSON:
        """Sends a request and returns the payload of the response.

        Args:
            method: Name of the method, such as `health`.
            params: Parameters of the method.
            timeout: Time limit in seconds; None waits until the connection ends.
            expect_final: True for methods with two responses (`agent`), to wait for the last one
                instead of that with the status `accepted`.

        Raises:
            GatewayRefusedError: the gateway returned an error.
            GatewayUnreachableError: the connection was lost.
            TimeoutError: no response within the limit. The gateway may still execute the request.
        """
        number = str(next(self._numbers))
        pending = self._pending[number] = _Pending(expect_final)
        try:
            with anyio.fail_after(timeout):
                await self._send(request(number, method, params))
                await pending.done.wait()
        finally:
            del self._pending[number]
        match pending.outcome:
            case GatewayResponse(ok=True, payload=payload):
                return payload
            case GatewayResponse() as response:
                raise self._refused(response, method)
            case lost:
                raise lost or GatewayUnreachableError(self.address.url, "connection lost")

    @contextmanager
    def subscribe(self) -> Iterator[MemoryObjectReceiveStream[GatewayEvent]]:
        """Yields the events from now on, until the connection ends.

        The stream also ends when more than `EVENT_BUFFER` events are unread.
        """
        send, receive = anyio.create_memory_object_stream[GatewayEvent](EVENT_BUFFER)
        self._subscribers.append(send)
        if self.closed.is_set():
            send.close()
        try:
            with send, receive:
                yield receive
        finally:
            self._subscribers.remove(send)

    async def _greeted(self) -> ClientConnection:
        """Connects, waits for the challenge and sends `connect`; sends no frame before."""
        try:
            with anyio.fail_after(HANDSHAKE_SECONDS):
                socket = await _Connect(
                    self.address.url,
                    max_size=MAX_FRAME,
                    compression=None,
                    proxy=None,  # a proxy from the environment must not see the token
                    open_timeout=None,
                    close_timeout=1,
                    user_agent_header=f"skerry/{__version__}",
                )
                try:
                    await self._greet(socket)
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await socket.close()
                    raise
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
            raise self._unreachable(error) from error
        return socket

    async def _greet(self, socket: ClientConnection) -> None:
        while not _is_challenge(challenge := decode(await socket.recv())):
            pass
        introduction = self._introduction()
        if self.address.key is not None:
            introduction["device"] = await self._device(self.address.key, introduction, challenge)
        await socket.send(request("connect", "connect", introduction))
        while True:
            answer = decode(await socket.recv())
            if isinstance(answer, GatewayResponse) and answer.id == "connect":
                break
        if not answer.ok:
            raise _refused(answer)
        self.hello = answer.payload

    async def _device(self, key: Path, introduction: JSON, challenge: object) -> JSON:
        """Returns the signed identity of this machine, for a gateway on another machine."""
        payload: JSON = challenge.payload if isinstance(challenge, GatewayEvent) else None
        sign = partial(device_key.device, key, introduction, payload)
        try:
            return await anyio.to_thread.run_sync(sign)
        except (KeyError, TypeError) as error:
            reason = "its challenge has no number to sign"
            raise GatewayUnreachableError(self.address.url, reason) from error
        except ValueError as error:
            raise ClientError(
                f"{key} holds no key of a device.",
                "Remove it; the next connection makes a new one, to be approved again.",
            ) from error

    def _introduction(self) -> dict[str, Any]:
        introduction: dict[str, Any] = {
            "minProtocol": PROTOCOL,
            "maxProtocol": PROTOCOL,
            "client": {
                "id": "cli",
                "version": __version__,
                "platform": sys.platform,
                "mode": "cli",
                "instanceId": str(uuid4()),
            },
            "role": "operator",
            "scopes": list(self._scopes),
            "caps": ["tool-events"],
            "userAgent": f"skerry/{__version__} python/{platform.python_version()}",
        }
        if self.address.token:
            introduction["auth"] = {"token": self.address.token}
        return introduction

    async def _send(self, text: str) -> None:
        try:
            await self._socket.send(text)
        except ConnectionClosed as error:
            raise self._unreachable(error) from error

    async def _receive(self) -> None:
        """Receives frames until the connection ends; then fails all pending requests."""
        try:
            while True:
                match decode(await self._socket.recv()):
                    case GatewayResponse() as response:
                        self._answer(response)
                    case GatewayEvent() as event:
                        self._publish(event)
        except ConnectionClosed as error:
            self._lose(self._unreachable(error))

    def _lose(self, error: GatewayUnreachableError) -> None:
        self.closed.set()
        for pending in self._pending.values():
            pending.outcome = error
            pending.done.set()
        for subscriber in self._subscribers:
            subscriber.close()

    def _answer(self, response: GatewayResponse) -> None:
        pending = self._pending.get(response.id)
        if pending is None or pending.done.is_set():
            return  # after its deadline, or a second one that was not requested
        if pending.expect_final and response.ok and _is_accepted(response.payload):
            return
        pending.outcome = response
        pending.done.set()

    def _publish(self, event: GatewayEvent) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber.send_nowait(event)
            except anyio.WouldBlock:
                subscriber.close()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass  # closed before, or being closed

    def _refused(self, response: GatewayResponse, method: str) -> GatewayRefusedError:
        """Returns the refusal; a method that the greeting of the gateway lacks is named unknown.

        A gateway requires the admin scope for methods that it does not have, so that its first
        objection may be the scope.
        """
        refused = _refused(response)
        hello = self.hello if isinstance(self.hello, dict) else {}
        methods = (hello.get("features") or {}).get("methods")
        if not methods or method in methods or refused.details_code not in _OF_UNKNOWN_METHODS:
            return refused
        version = (hello.get("server") or {}).get("version", "unknown")
        unknown = GatewayRefusedError(
            refused.wire_code,
            f"The gateway (version {version}) does not know the method {method!r}.",
            UNKNOWN_METHOD,
            refused.payload,
        )
        unknown.remedy = (
            f"This command is of version {__version__}: update Skerry where the gateway runs, and"
            " restart the gateway."
        )
        return unknown

    def _unreachable(self, error: Exception) -> GatewayUnreachableError:
        return GatewayUnreachableError(self.address.url, _reason(error))


def _reason(error: Exception) -> str:
    match error:
        case ConnectionClosed():
            close = error.rcvd
            return (
                f"it closed with {close.code} {close.reason}".rstrip()
                if close
                else "connection lost"
            )
        case InvalidHandshake() | InvalidURI():
            return f"it does not speak WebSocket ({error})"
        case TimeoutError():
            return f"no greeting within {HANDSHAKE_SECONDS:.0f} s"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)


def _refused(response: GatewayResponse) -> GatewayRefusedError:
    error = response.error or WireError()
    details = error.details if isinstance(error.details, dict) else {}
    code = str(details.get("code", ""))
    text = error.message or "The gateway refused and gave no reason."
    message = _MESSAGES.get(code, text)
    refused = GatewayRefusedError(error.code, message, code, response.payload)
    remedy = str(details.get("remedy") or details.get("remediationHint") or "")
    refused.remedy = _REMEDIES.get(code) or remedy or _REMEDIES.get(error.code, "")
    refused.retry_after_ms = error.retry_after_ms
    return refused


def _is_challenge(frame: GatewayResponse | GatewayEvent | None) -> bool:
    return isinstance(frame, GatewayEvent) and frame.event == "connect.challenge"


def _is_accepted(payload: JSON) -> bool:
    return isinstance(payload, dict) and payload.get("status") == "accepted"
