"""Adapter for every API that speaks `anthropic-messages`: Claude, llama.cpp's server, others."""

from typing import Final

import httpx2

from skerry.infra.http import HttpClient
from skerry.model.message import AssistantMessage, Block, Usage
from skerry.ports.model import Listener, ModelInfo, ModelReply, ModelRequest
from skerry.providers.anthropic_request import API, Options, request_body, thinking_options
from skerry.providers.anthropic_stream import AnthropicBuilder
from skerry.providers.streaming_call import Endpoint, Exchange
from skerry.providers.thinking import Downgrades

_VERSION: Final = "2023-06-01"
_MOST_PAUSES: Final = 7
"""Limit on the pauses of one answer; after it the text so far is the answer, cut off."""


class AnthropicProvider:
    """One endpoint; its base URL may end in `/v1`. Retrying is `providers.retry`'s."""

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
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
        """Returns `anthropic-messages`."""
        return API

    async def complete(self, request: ModelRequest, hear: Listener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""

        async def ask(options: Options, hear: Listener) -> ModelReply:
            history, content, usage = request.history, list[Block](), Usage()
            sent_count = len(history.messages)
            try:
                while True:
                    builder = AnthropicBuilder(self._endpoint.name)
                    body = request_body(request, options)
                    reply = await self._exchange.ask(request, self._url, body, builder, hear)
                    content += reply.content
                    usage += reply.usage
                    goes_on = builder.paused and reply.content and not reply.tool_calls
                    if not goes_on or len(history.messages) - sent_count == _MOST_PAUSES:
                        return ModelReply(tuple(content), reply.stop_reason, usage)
                    history.append(_said(request.model, reply))  # what it said goes back to it
            except BaseException:
                if content:  # what it said before it paused
                    hear.on_spent(usage)
                raise
            finally:
                history.cut(sent_count)

        return await self._downgrades.ask(request, hear, thinking_options(request), ask)


def _said(model: ModelInfo, reply: ModelReply) -> AssistantMessage:
    """Returns an answer so far as a message of the conversation."""
    provider, reason = model.provider, reply.stop_reason
    return AssistantMessage(reply.content, API, provider, model.id, reply.usage, reason, 0)
