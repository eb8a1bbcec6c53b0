"""One call of a model API over HTTP: send a body, read its stream of events, tell what it says.

The wire formats differ in the body they send and in the builder that reads the events; all else
is here, once. Of a server-sent event only `data` matters to model APIs; comments and the fields
`event`, `id` and `retry` are skipped (source: the event stream format of the HTML standard).
"""

import math
from base64 import b64encode
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

import anyio
import anyio.lowlevel
import httpx2

from skerry import __version__
from skerry.infra.http import BODY_LIMIT, BodyTooLargeError, HttpClient
from skerry.model.errors import (
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelRequestError,
)
from skerry.model.message import Usage
from skerry.model.unanswered import ModelSilentError, ModelUnreachableError
from skerry.ports.model import ModelReply, ModelRequest, ReplyListener
from skerry.providers.failures import body_failure, response_failure
from skerry.providers.text_filters import TextRelay, WrittenCalls
from skerry.providers.wire_format import EventText, sound

_ANSWER_LIMIT: Final = 64 * 1024 * 1024  # bytes; 300 of them carry a token
_ERROR_LIMIT: Final = 64 * 1024
_CONNECT_SECONDS: Final = 10.0
_END_SECONDS: Final = 1.0  # for the end of the response behind its last event
_MORE_SECONDS: Final = 10.0  # for what may follow a finish marker, such as the usage
_SECRET_WORDS: Final = ("auth", "key", "token", "secret", "cookie", "password")
_HIDDEN: Final = b"***"
_SHORTEST: Final = 8  # bytes of a key; a shorter one is none, and is found in ordinary words
EVENT_LIMIT: Final = 4 * 1024 * 1024
"""Bytes that one event may have."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a model API and the form of its requests."""

    name: str
    """Name for people."""
    base_url: str
    """Up to and including the version, such as `/v1`."""
    api_key: str | None = field(default=None, repr=False)
    output_limit: str | None = None
    """Field that takes a model's `max_tokens`; None leaves the length to the provider."""
    silence: float = 120.0
    """Seconds without a byte after which a call has failed."""
    first_byte: float | None = None
    """Seconds before the first byte after which it has failed; None is as long as `silence`."""
    reuse: bool = True
    """Allows a connection to be reused for the next call."""
    api: str = "openai-completions"
    """The wire format that it speaks."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Headers sent with every call; they override ours."""
    credentials: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    """The key, and headers that look like one."""
    secrets: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    """Parts of them that must never be repeated."""

    def __post_init__(self) -> None:
        named = [
            value.split()[-1]
            for name, value in self.headers
            if value.strip() and any(word in name.lower() for word in _SECRET_WORDS)
        ]
        secrets_in_full = tuple(secret.encode() for secret in (self.api_key, *named) if secret)
        object.__setattr__(self, "credentials", secrets_in_full)
        secrets = tuple(
            credential for credential in secrets_in_full if len(credential) >= _SHORTEST
        )
        object.__setattr__(self, "secrets", secrets)  # frozen from here on

    def hidden(self, data: bytes) -> bytes:
        """Returns a server's text, which might repeat them, without the secrets."""
        for secret in self.secrets:
            data = data.replace(secret, _HIDDEN)
        return data


class EventTooLargeError(ValueError):
    """An event is longer than the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"an event has more than {limit} bytes")


class EventSplitter:
    """Takes the bytes of one response as they come, gives the data of each complete event."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._line = bytearray()  # the line that has not ended yet
        self._data: list[bytes] = []  # the data lines of the event that has not ended yet
        self._size = 0
        self._after_return = False
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        r"""Returns the data of the events that `chunk` completes; lines of one are joined by \n.

        Raises:
            EventTooLargeError: an unfinished event is over the limit; feed nothing more.
        """
        if self._after_return and chunk:
            self._after_return = False
            chunk = chunk.removeprefix(b"\n")  # the second half of a cut \r\n
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[bytes] = []
        first, *lines = chunk.split(b"\n")
        self._line += first
        if lines:
            last = lines.pop()
            self._take(bytes(self._line), events)
            for line in lines:
                self._take(line, events)
            self._line[:] = last
        if self._size + len(self._line) > self._limit:
            raise EventTooLargeError(self._limit)
        return events

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
            self._size = 0
            return
        self._size += len(line)
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))


class ReplyBuilder(Protocol):
    """Puts the events of one response together."""

    @property
    def finished(self) -> bool:
        """Returns whether the finish marker came; without it the answer is not whole."""
        ...

    @property
    def done(self) -> bool:
        """Returns whether nothing that matters can follow."""
        ...

    @property
    def usage(self) -> Usage:
        """Returns the usage counted so far: it is billed, whatever becomes of the answer."""
        ...

    def take(self, data: bytes) -> EventText | None:
        """Returns the text that an event added. Raises `ModelError`."""
        ...

    def reply(self) -> ModelReply:
        """Returns the whole reply. Raises `ModelError`."""
        ...


class StreamingCall:
    """Calls one endpoint. `headers` are those of the wire format, the key included."""

    def __init__(self, http: HttpClient, endpoint: Endpoint, headers: Mapping[str, str]) -> None:
        self._http = http
        self._endpoint = endpoint
        self._secrets = endpoint.secrets
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # each piece is wanted as it comes
            "user-agent": f"skerry/{__version__}",
        }
        if not endpoint.reuse:
            self._headers["connection"] = "close"
        self._headers |= headers
        self._headers |= address_credentials(endpoint.base_url)
        self._headers |= {name.lower(): value for name, value in endpoint.headers}
        self._first_byte = min(endpoint.first_byte or endpoint.silence, endpoint.silence)

    async def ask(
        self,
        request: ModelRequest,
        url: httpx2.URL,
        body: bytes,
        builder: ReplyBuilder,
        listener: ReplyListener,
    ) -> ModelReply:
        """Returns the response to `body`; see `ports.model.ModelProvider`.

        The answer is whole when its finish marker came; the end of the stream does not make it so.
        Each network read is told once. Tool calls that are written as text are calls.
        """
        try:
            return await self._exchange(request, url, body, builder, listener)
        except BaseException:
            listener.on_spent(builder.usage)
            raise

    async def _exchange(
        self,
        request: ModelRequest,
        url: httpx2.URL,
        body: bytes,
        builder: ReplyBuilder,
        listener: ReplyListener,
    ) -> ModelReply:
        written = WrittenCalls(request)
        teller = TextRelay(listener, written, self._secrets)
        try:
            await self._stream(url, body, builder, teller)
        except BodyTooLargeError as error:
            raise ModelRequestError(f"{self._endpoint.name}: {error}.") from error
        except httpx2.TransportError as error:
            if not builder.finished:  # what breaks behind a whole answer does not matter
                raise self._unreachable(url, error) from error
        reply, held_text = written.finish(builder.reply())
        teller.end(held_text)
        return sound(teller.hushed(reply), len(request.history.messages), self._endpoint.name)

    async def _stream(
        self, url: httpx2.URL, body: bytes, builder: ReplyBuilder, teller: TextRelay
    ) -> None:
        first = self._first_byte
        connect = min(_CONNECT_SECONDS, first)
        timeout = {"connect": connect, "read": first, "write": 30.0, "pool": None}
        framing = {"host": url.netloc.decode("ascii"), "content-length": str(len(body))}
        request = httpx2.Request(
            "POST",
            url,
            headers=framing | self._headers,
            stream=httpx2.ByteStream(body),
            extensions={"timeout": timeout, BODY_LIMIT: _ANSWER_LIMIT},
        )
        # What a client adds, such as redirects and cookies, is not wanted and costs 150 us of CPU.
        response = await self._http.transport.handle_async_request(request)
        try:
            if response.status_code != httpx2.codes.OK or not _is_stream(response):
                raise await self._failure(url, response)
            timeout["read"] = self._endpoint.silence
            await self._read(response, builder, teller)
        finally:
            await response.aclose()  # which never waits

    async def _read(
        self, response: httpx2.Response, builder: ReplyBuilder, teller: TextRelay
    ) -> None:
        events = EventSplitter()
        received = False
        reads = cast("httpx2.AsyncByteStream", response.stream)  # of an asynchronous transport
        with anyio.CancelScope(deadline=anyio.current_time() + self._first_byte) as patience:
            async for read in reads:
                patience.deadline, received = math.inf, True
                self._take(events, read, builder, teller)
                if builder.done:
                    break
                if builder.finished:
                    patience.deadline = anyio.current_time() + _MORE_SECONDS
                # Who gave up is told no more, though more may have come already.
                await anyio.lowlevel.checkpoint_if_cancelled()
            # A connection whose response was read to its end can be used again.
            patience.deadline = anyio.current_time() + _END_SECONDS
            async for _ in reads:
                pass
        if patience.cancelled_caught and not received:
            raise self._silent(self._first_byte)

    def _take(
        self, events: EventSplitter, read: bytes, builder: ReplyBuilder, teller: TextRelay
    ) -> None:
        """Takes up one network read, and tells of it once."""
        try:
            for data in events.feed(read):
                teller.add(builder.take(self._endpoint.hidden(data)))
                if builder.done:
                    break
        except EventTooLargeError as error:
            raise ModelRequestError(f"{self._endpoint.name}: {error}.") from error
        finally:
            teller.tell()

    async def _failure(self, url: httpx2.URL, response: httpx2.Response) -> ModelError:
        """Converts a response that is not a stream of events into an error."""
        body = bytearray()
        with suppress(httpx2.RequestError):  # the status alone says much
            async with aclosing(response.aiter_bytes()) as parts:
                async for part in parts:
                    body += part
                    if len(body) > _ERROR_LIMIT:
                        break
        text = self._endpoint.hidden(bytes(body))
        if response.status_code != httpx2.codes.OK:
            return response_failure(
                response.status_code, response.headers, text, self._endpoint.name
            )
        if failure := body_failure(text, self._endpoint.name):
            return failure  # some servers answer 200 and have the error in the body
        return ModelNotFoundError(
            f"{self._endpoint.name} did not answer with a stream. Is"
            f" {url.scheme}://{url.netloc.decode()}{url.path} the right address?"
        )

    def _silent(self, seconds: float) -> ModelConnectionError:
        return ModelSilentError(f"{self._endpoint.name} was silent for {seconds:g} s.")

    def _unreachable(self, url: httpx2.URL, error: httpx2.TransportError) -> ModelConnectionError:
        name = self._endpoint.name
        quoted = str(error).encode()  # a header that cannot be sent is quoted
        text = self._endpoint.hidden(quoted).decode()
        match error:
            case httpx2.ReadTimeout():
                return ModelSilentError(f"{name} was {text}.")
            case httpx2.ConnectTimeout():
                return ModelUnreachableError(f"Cannot reach {name} at {url.host}: {text}")
            case httpx2.ConnectError():
                return ModelUnreachableError(f"Cannot reach {name} at {url.host}: {text}")
            case _:
                return ModelConnectionError(f"The connection to {name} broke: {text}")


def address_credentials(address: str) -> dict[str, str]:
    """Returns the header for a name and a password that stand in the address."""
    url = httpx2.URL(address)
    if not url.userinfo:
        return {}
    pair = f"{url.username}:{url.password}".encode()
    return {"authorization": f"Basic {b64encode(pair).decode()}"}


def _is_stream(response: httpx2.Response) -> bool:
    """Returns whether it may be read as events; some servers name no type."""
    kind = response.headers.get("content-type", "text/event-stream")
    encoding = response.headers.get("content-encoding", "identity")
    return kind.startswith("text/event-stream") and encoding == "identity"
