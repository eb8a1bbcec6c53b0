"""Adapter for every API that speaks `anthropic-messages`: Claude, llama.cpp's server, others."""

from typing import Final

import httpx2

from skerry.ports.model import Listener, ModelReply, ModelRequest
from skerry.providers.anthropic_request import API, Options, request_body, thinking_options
from skerry.providers.anthropic_stream import AnthropicBuilder
from skerry.providers.exchange import Endpoint, Exchange
from skerry.providers.thinking import Downgrades

_VERSION: Final = "2023-06-01"


class AnthropicProvider:
    """One endpoint; its base URL may end in `/v1`. Retrying is `providers.retry`'s."""

    def __init__(self, http: httpx2.AsyncClient, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        base = endpoint.base_url.rstrip("/").removesuffix("/v1")
        self._url = httpx2.URL(f"{base}/v1/messages")
        headers = {"anthropic-version": _VERSION}
        if endpoint.api_key:
            headers["x-api-key"] = endpoint.api_key
        self._exchange = Exchange(http, endpoint, headers)
        self._downgrades = Downgrades[Options]()

    @property
    def api(self) -> str:
        """Return `anthropic-messages`."""
        return API

    async def complete(self, request: ModelRequest, hear: Listener) -> ModelReply:
        """Return the response; see `ports.model.ModelProvider`."""

        async def ask(options: Options, hear: Listener) -> ModelReply:
            builder = AnthropicBuilder(self._endpoint.name)
            body = request_body(request, options)
            return await self._exchange.ask(request, self._url, body, builder, hear)

        return await self._downgrades.ask(request, hear, thinking_options(request), ask)
