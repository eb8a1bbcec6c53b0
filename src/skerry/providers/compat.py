"""Adapter for every API that speaks `openai-completions`: OpenAI, local servers, most others."""

import httpx2

from skerry.infra.http import HttpClient
from skerry.ports.model import Listener, ModelReply, ModelRequest
from skerry.providers.compat_request import API, request_body
from skerry.providers.compat_stream import CompatBuilder
from skerry.providers.streaming_call import Endpoint, Exchange
from skerry.providers.thinking import Downgrades, efforts


class CompatProvider:
    """One endpoint. Retrying is `providers.retry`'s."""

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = httpx2.URL(endpoint.base_url.rstrip("/") + "/chat/completions")
        key = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        self._exchange = Exchange(http, endpoint, key)
        self._downgrades = Downgrades[str]()

    @property
    def api(self) -> str:
        """Returns `openai-completions`."""
        return API

    async def complete(self, request: ModelRequest, hear: Listener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`.

        The answer is whole when its finish reason came; `[DONE]` alone does not make it so.
        """

        async def ask(effort: str, hear: Listener) -> ModelReply:
            body = request_body(request, self._endpoint.output_limit, effort)
            builder = CompatBuilder(self._endpoint.name)
            return await self._exchange.ask(request, self._url, body, builder, hear)

        return await self._downgrades.ask(request, hear, efforts(request), ask)
