"""Adapter for every API that speaks `google-generative-ai`: Gemini."""

import re
from typing import Final
from urllib.parse import quote

import httpx2

from skerry.infra.http import HttpClient
from skerry.ports.model import Listener, ModelReply, ModelRequest
from skerry.providers.google_request import (
    API,
    Thinking,
    request_body,
    thinking_forms,
)
from skerry.providers.google_stream import GoogleBuilder
from skerry.providers.streaming_call import Endpoint, Exchange
from skerry.providers.thinking import Downgrades

_VERSION: Final = re.compile(r"/v\d[a-z0-9]*$")
_DEFAULT_VERSION: Final = "/v1beta"  # v1 lacks much of what is asked for, and many servers lack v1


class GoogleProvider:
    """One endpoint. Retrying is `providers.retry`'s."""

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._base = versioned(endpoint.base_url.rstrip("/"))
        key = {"x-goog-api-key": endpoint.api_key} if endpoint.api_key else {}
        self._exchange = Exchange(http, endpoint, key)
        self._downgrades = Downgrades[Thinking]()

    @property
    def api(self) -> str:
        """Returns `google-generative-ai`."""
        return API

    async def complete(self, request: ModelRequest, hear: Listener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""
        model = request.model.id
        name = model if "/" in model else f"models/{model}"
        url = httpx2.URL(f"{self._base}/{quote(name)}:streamGenerateContent?alt=sse")

        async def ask(thinking: Thinking, hear: Listener) -> ModelReply:
            limits = self._endpoint.output_limit is not None
            body = request_body(request, thinking, limits=limits)
            builder = GoogleBuilder(self._endpoint.name)
            return await self._exchange.ask(request, url, body, builder, hear)

        return await self._downgrades.ask(request, hear, thinking_forms(request), ask)


def versioned(base: str) -> str:
    """Returns an address with the version of the API, which people leave out."""
    return base if _VERSION.search(base) else base + _DEFAULT_VERSION
