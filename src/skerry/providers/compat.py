"""Adapter for every API that speaks `openai-completions`: OpenAI, local servers, most others."""

from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final

import anyio
import httpx2

from skerry import __version__
from skerry.infra.http import BODY_LIMIT, BodyTooLargeError
from skerry.model.errors import (
    ModelConnectionError,
    ModelError,
    ModelRequestError,
)
from skerry.ports.model import Listener, ModelReply, ModelRequest
from skerry.providers.compat_request import API, request_body
from skerry.providers.compat_stream import ReplyBuilder
from skerry.providers.failures import response_failure, stream_failure
from skerry.providers.sse import EventSplitter, EventTooLargeError

_ANSWER_LIMIT: Final = 64 * 1024 * 1024  # bytes; 300 of them carry a token
_ERROR_LIMIT: Final = 64 * 1024
_END_SECONDS: Final = 1.0  # for the end of the response behind its last event


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model API is and how it wants to be asked."""

    name: str
    """For people."""
    base_url: str
    """Up to and including `/v1`."""
    api_key: str | None = field(default=None, repr=False)
    output_limit: str | None = None
    """Field that takes a model's `max_tokens`; None leaves the length to the provider."""
    silence: float = 120.0
    """Seconds without a byte after which a call has failed."""
    reuse: bool = True
    """Whether a connection may carry the next call too."""


class CompatProvider:
    """One endpoint. Makes one request per call; retrying is `providers.retry`'s."""

    def __init__(self, http: httpx2.AsyncClient, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint
        self._url = httpx2.URL(endpoint.base_url.rstrip("/") + "/chat/completions")
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # each piece is wanted as it comes
            "user-agent": f"skerry/{__version__}",
        }
        if not endpoint.reuse:
            self._headers["connection"] = "close"
        if endpoint.api_key:
            self._headers["authorization"] = f"Bearer {endpoint.api_key}"
        self._extensions = {
            "timeout": {"connect": 10.0, "read": endpoint.silence, "write": 30.0, "pool": None},
            BODY_LIMIT: _ANSWER_LIMIT,
        }

    @property
    def api(self) -> str:
        """Return `openai-completions`."""
        return API

    async def complete(self, request: ModelRequest, hear: Listener) -> ModelReply:
        """Return the response; see `ports.model.ModelProvider`.

        The answer is whole when its finish reason came; `[DONE]` alone does not make it so. Text
        is given to `hear` once per network read.
        """
        builder = ReplyBuilder(self._endpoint.name, self._endpoint.api_key)
        try:
            await self._stream(request, builder, hear)
        except BodyTooLargeError as error:
            raise ModelRequestError(f"{self._endpoint.name}: {error}.") from error
        except httpx2.TransportError as error:
            if not builder.finished:  # what breaks behind a whole answer does not matter
                raise self._unreachable(error) from error
        return builder.reply()

    async def _stream(self, request: ModelRequest, builder: ReplyBuilder, hear: Listener) -> None:
        response = await self._http.send(
            httpx2.Request(
                "POST",
                self._url,
                headers=self._headers,
                content=request_body(request, self._endpoint.output_limit),
                extensions=self._extensions,
            ),
            stream=True,
        )
        try:
            if response.status_code != httpx2.codes.OK or not _is_stream(response):
                raise await self._failure(response)
            await self._read(response, builder, hear)
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _read(self, response: httpx2.Response, builder: ReplyBuilder, hear: Listener) -> None:
        events = EventSplitter()
        async with aclosing(response.aiter_raw()) as reads:
            async for read in reads:
                texts: list[str] = []
                try:
                    done = _take(events.feed(read), builder, texts)
                except EventTooLargeError as error:
                    raise ModelRequestError(f"{self._endpoint.name}: {error}.") from error
                finally:
                    if texts:
                        hear.on_text("".join(texts))
                if done:
                    break
            # A connection whose response was read to its end can be used again.
            with anyio.move_on_after(_END_SECONDS):
                async for _ in reads:
                    pass

    async def _failure(self, response: httpx2.Response) -> ModelError:
        """Return what a response means that is not a stream of events."""
        body = bytearray()
        with suppress(httpx2.RequestError):  # the status alone says much
            async with aclosing(response.aiter_bytes()) as parts:
                async for part in parts:
                    body += part
                    if len(body) > _ERROR_LIMIT:
                        break
        said = bytes(body)
        if self._endpoint.api_key:
            said = said.replace(self._endpoint.api_key.encode(), b"***")
        if response.status_code != httpx2.codes.OK:
            return response_failure(
                response.status_code, response.headers, said, self._endpoint.name
            )
        if b'"error"' in said:  # some servers answer 200 and say in the body that it failed
            return stream_failure(said, self._endpoint.name)
        return ModelRequestError(
            f"{self._endpoint.name} did not answer with a stream. Is {self._url} the right address?"
        )

    def _unreachable(self, error: httpx2.TransportError) -> ModelConnectionError:
        name = self._endpoint.name
        match error:
            case httpx2.ReadTimeout():
                return ModelConnectionError(f"{name} was {error}.")
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return ModelConnectionError(f"Cannot reach {name} at {self._url.host}: {error}")
            case _:
                return ModelConnectionError(f"The connection to {name} broke: {error}")


def _take(events: list[bytes], builder: ReplyBuilder, texts: list[str]) -> bool:
    """Hand `events` to the builder, collect the texts; return whether the last event came."""
    for data in events:
        if data == b"[DONE]":
            return True
        text = builder.take(data)
        if text:
            texts.append(text)
    return False


def _is_stream(response: httpx2.Response) -> bool:
    """Return whether it may be read as events; some servers name no type."""
    kind = response.headers.get("content-type", "text/event-stream")
    encoding = response.headers.get("content-encoding", "identity")
    return kind.startswith("text/event-stream") and encoding == "identity"
