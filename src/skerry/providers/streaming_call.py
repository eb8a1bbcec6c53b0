"""One call of a model API over HTTP: sends a body and reads the stream of events.

Wire formats differ in the body and in the builder that reads the events. Of a server-sent event
only `data` is used; comments and the fields `event`, `id` and `retry` are skipped (source: the
event stream format of the HTML standard).
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
_END_SECONDS: Final = 1.0  # for the end of the response after its last event
_MORE_SECONDS: Final = 10.0  # for events after a finish marker, such as the usage
_SECRET_WORDS: Final = ("auth", "key", "token", "secret", "cookie", "password")
_HIDDEN: Final = b"***"
_SHORTEST: Final = 8  # least bytes of a secret; a shorter one would match ordinary words
EVENT_LIMIT: Final = 4 * 1024 * 1024
"""Limit of one event, in bytes."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a model API and the form of its requests."""

    name: str
    """Name for people."""
    base_url: str
    """URL up to and including the version, such as `/v1`."""
    api_key: str | None = field(default=None, repr=False)
    output_limit: str | None = None
    """Field of the request for a model's `max_tokens`; None for no limit in the request."""
    silence: float = 120.0
    """Seconds without a byte after which a call fails."""
    first_byte: float | None = None
    """Seconds without a first byte after which a call fails; None for `silence`."""
    reuse: bool = True
    """True to reuse the connection for the next call."""
    api: str = "openai-completions"
    """Wire format."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Headers of every call; they override the default ones."""
    credentials: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    """The key, and values of headers whose names suggest a secret."""
    secrets: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    """Credentials that are long enough to be removed from texts."""

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
        """Returns the bytes of a server's text with each secret replaced by stars."""
        for secret in self.secrets:
            data = data.replace(secret, _HIDDEN)
        return data


class EventTooLargeError(ValueError):
    """An event exceeds the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"an event has more than {limit} bytes")


class EventSplitter:
    """Splits the bytes of one response into the data of its server-sent events."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._line = bytearray()  # the line that has not ended yet
        self._data: list[bytes] = []  # the data lines of the event that has not ended yet
        self._size = 0
        self._after_return = False
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        r"""Returns the data of the events that `chunk` completes, with lines joined by \n.

        Raises:
            EventTooLargeError: an unfinished event exceeds the limit; do not call `feed` again.
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
    """Builds a reply from the events of one response; each wire format implements it."""

    @property
    def finished(self) -> bool:
        """Returns True after the finish marker; without it the answer is incomplete."""
        ...

    @property
    def done(self) -> bool:
        """Returns True when no relevant event can follow."""
        ...

    @property
    def usage(self) -> Usage:
        """Returns the usage so far, which is billed even when the answer fails."""
        ...

    def take(self, data: bytes) -> EventText | None:
        """Processes the data of one event; returns the text that it added.

        Raises:
            ModelError: the event is invalid, or reports an error.
        """
        ...

    def reply(self) -> ModelReply:
        """Returns the whole reply.

        Raises:
            ModelError: the answer is incomplete or invalid.
        """
        ...


class StreamingCall:
    """Calls one endpoint. `headers` are those of the wire format, with the key."""

    def __init__(self, http: HttpClient, endpoint: Endpoint, headers: Mapping[str, str]) -> None:
        self._http = http
        self._endpoint = endpoint
        self._secrets = endpoint.secrets
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # compression would delay events
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
        """Sends `body` to `url` and returns the reply; see `ports.model.ModelProvider.complete`.

        Args:
            request: The request, for its tools and history.
            url: Address of the call.
            body: Encoded request.
            builder: A new builder for the events of this response.
            listener: Gets the output of each network read.

        Raises:
            ModelError: the call failed, or the answer ended without its finish marker.
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
        written_calls = WrittenCalls(request)
        relay = TextRelay(listener, written_calls, self._secrets)
        try:
            await self._stream(url, body, builder, relay)
        except BodyTooLargeError as error:
            raise ModelRequestError(f"{self._endpoint.name}: {error}.") from error
        except httpx2.TransportError as error:
            if not builder.finished:  # a failure after a whole answer does not matter
                raise self._unreachable(url, error) from error
        reply, held_text = written_calls.finish(builder.reply())
        relay.end(held_text)
        return sound(relay.redact(reply), len(request.history.messages), self._endpoint.name)

    async def _stream(
        self, url: httpx2.URL, body: bytes, builder: ReplyBuilder, relay: TextRelay
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
        # Redirects and cookies of the client are not needed and cost 150 us of CPU.
        response = await self._http.transport.handle_async_request(request)
        try:
            if response.status_code != httpx2.codes.OK or not _is_stream(response):
                raise await self._failure(url, response)
            timeout["read"] = self._endpoint.silence
            await self._read(response, builder, relay)
        finally:
            await response.aclose()  # which never waits

    async def _read(
        self, response: httpx2.Response, builder: ReplyBuilder, relay: TextRelay
    ) -> None:
        events = EventSplitter()
        received = False
        reads = cast("httpx2.AsyncByteStream", response.stream)  # of an asynchronous transport
        with anyio.CancelScope(deadline=anyio.current_time() + self._first_byte) as patience:
            async for read in reads:
                patience.deadline, received = math.inf, True
                self._take(events, read, builder, relay)
                if builder.done:
                    break
                if builder.finished:
                    patience.deadline = anyio.current_time() + _MORE_SECONDS
                # A cancelled caller must not get output that was already read.
                await anyio.lowlevel.checkpoint_if_cancelled()
            # A connection can be reused only after its response was read to the end.
            patience.deadline = anyio.current_time() + _END_SECONDS
            async for _ in reads:
                pass
        if patience.cancelled_caught and not received:
            raise self._silent(self._first_byte)

    def _take(
        self, events: EventSplitter, read: bytes, builder: ReplyBuilder, relay: TextRelay
    ) -> None:
        """Processes one network read, and passes its output on once."""
        try:
            for data in events.feed(read):
                relay.add(builder.take(self._endpoint.hidden(data)))
                if builder.done:
                    break
        except EventTooLargeError as error:
            raise ModelRequestError(f"{self._endpoint.name}: {error}.") from error
        finally:
            relay.flush()

    async def _failure(self, url: httpx2.URL, response: httpx2.Response) -> ModelError:
        """Returns the error for a response that is not a stream of events."""
        body = bytearray()
        with suppress(httpx2.RequestError):  # the status is useful without the body
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
            return failure  # some servers return 200 with the error in the body
        return ModelNotFoundError(
            f"{self._endpoint.name} did not answer with a stream. Is"
            f" {url.scheme}://{url.netloc.decode()}{url.path} the right address?"
        )

    def _silent(self, seconds: float) -> ModelConnectionError:
        return ModelSilentError(f"{self._endpoint.name} was silent for {seconds:g} s.")

    def _unreachable(self, url: httpx2.URL, error: httpx2.TransportError) -> ModelConnectionError:
        name = self._endpoint.name
        quoted = str(error).encode()  # the text may quote a header with a secret
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
    """Returns the header `Authorization: Basic` for a user name and password in a URL."""
    url = httpx2.URL(address)
    if not url.userinfo:
        return {}
    pair = f"{url.username}:{url.password}".encode()
    return {"authorization": f"Basic {b64encode(pair).decode()}"}


def _is_stream(response: httpx2.Response) -> bool:
    """Returns True when the response may be a stream of events; some servers omit the type."""
    kind = response.headers.get("content-type", "text/event-stream")
    encoding = response.headers.get("content-encoding", "identity")
    return kind.startswith("text/event-stream") and encoding == "identity"
