"""Adapter for every API that speaks `openai-responses`."""

import httpx2

from skerry.infra.http import HttpClient
from skerry.ports.model import Listener, ModelReply, ModelRequest
from skerry.providers.responses_request import API, request_body
from skerry.providers.responses_stream import ResponsesBuilder
from skerry.providers.streaming_call import Endpoint, Exchange
from skerry.providers.thinking import Downgrades, efforts


class ResponsesProvider:
    """One endpoint. Retrying is `providers.retry`'s."""

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = httpx2.URL(endpoint.base_url.rstrip("/") + "/responses")
        key = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        self._exchange = Exchange(http, endpoint, key)
        self._downgrades = Downgrades[str]()

    @property
    def api(self) -> str:
        """Returns `openai-responses`."""
        return API

    async def complete(self, request: ModelRequest, hear: Listener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""

        async def ask(effort: str, hear: Listener) -> ModelReply:
            limits = self._endpoint.output_limit is not None
            body = request_body(request, effort, limits=limits)
            builder = ResponsesBuilder(self._endpoint.name)
            return await self._exchange.ask(request, self._url, body, builder, hear)

        return await self._downgrades.ask(request, hear, efforts(request), ask)
