"""The tool `web_search`: returns results of a search engine."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from skerry.features.web import plugin_search
from skerry.features.web.cache import Cache
from skerry.features.web.config import WebSearchConfig
from skerry.features.web.providers import (
    Provider,
    Query,
    SearchRefusedError,
    clean,
    provider_of,
    rules_for,
)
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.net.live_client import LiveClient
from skerry.net.safe_fetch import Fetched, FetchRequest, Outcome
from skerry.policy.access import Verb
from skerry.ports.tool import ToolContext
from skerry.sdk.tool_host import ToolHost

_MAX_RESPONSE: Final = 2_000_000
_OK: Final = 200
_MINUTE_MS: Final = 60_000
_REFUSED: Final = {401: "the key is refused", 403: "the key is refused", 429: "too many searches"}


class WebSearchParams(BaseModel):
    """Parameters of `web_search`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(min_length=1, max_length=2000)
    count: int | None = Field(default=None, ge=1, le=10)
    country: str = Field(default="", pattern=r"^([A-Za-z]{2}|ALL)?$")
    search_lang: str = Field(default="", pattern=r"^([A-Za-z]{2,3}(-[A-Za-z]{2,4})?)?$")
    ui_lang: str = Field(default="", pattern=r"^([A-Za-z]{2,3}(-[A-Za-z]{2,4})?)?$")
    freshness: str = Field(default="", max_length=30)


_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "count": {"type": "integer", "minimum": 1, "maximum": 10},
        "country": {"type": "string", "description": "Two letters."},
        "search_lang": {"type": "string"},
        "ui_lang": {"type": "string"},
        "freshness": {
            "type": "string",
            "description": "pd, pw, pm, py or YYYY-MM-DDtoYYYY-MM-DD.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


class WebSearch:
    """Queries the configured provider; its results are foreign text."""

    reads_only = True
    verb = Verb.USE
    spec = ToolSpec("web_search", "Search the web.", _SCHEMA)

    def __init__(self, host: ToolHost, client: LiveClient) -> None:
        self._host = host
        self._client = client
        self._cache = Cache()

    @property
    def _config(self) -> WebSearchConfig:
        return self._host.config().tools.web.section(WebSearchConfig)

    def is_offered(self, _: Caller) -> bool:
        """Returns true when the configuration enables the tool."""
        return self._config.enabled

    async def run(self, arguments: dict[str, Any], _: ToolContext) -> ToolResult:
        """Returns the results as a JSON object, or an error with the missing setting.

        Raises:
            ToolError: the provider did not respond, or sent no results.
        """
        params = WebSearchParams.model_validate(arguments)
        config = self._config
        fields = params.model_dump(exclude={"count"})
        query = Query(count=params.count or config.max_results, **fields)
        begin = self._host.clock.now_ms()
        try:
            name, ask = self._search_function(config, query)
        except SearchRefusedError as error:
            return ToolResult(json.dumps(error.answer), details=error.answer)
        key = (name, query)
        if (cached := self._cache.get(key, begin)) is not None:
            return _tool_result(cached | {"cached": True})
        result_fields = await ask()
        now = self._host.clock.now_ms()
        result = {"query": query.query, "provider": name, **result_fields, "tookMs": now - begin}
        text = json.dumps(result, ensure_ascii=False)
        until = now + int(config.cache_ttl_minutes * _MINUTE_MS)
        self._cache.put(key, result, len(text), until, now)
        return _tool_result(result)

    def _search_function(
        self, config: WebSearchConfig, query: Query
    ) -> tuple[str, Callable[[], Awaitable[dict[str, Any]]]]:
        """Returns the name of the provider, and the function that queries it.

        Raises:
            SearchRefusedError: the search is not possible.
        """
        if config.provider == "plugin":
            name, search = plugin_search.chosen(self._host.searches)
            return name, partial(plugin_search.results, search, query)
        provider = provider_of(config, self._host.environ)
        request = provider.request(query)
        return provider.name, partial(self._provider_results, provider, request, query, config)

    async def _provider_results(
        self, provider: Provider, request: FetchRequest, query: Query, config: WebSearchConfig
    ) -> dict[str, Any]:
        limited = FetchRequest(
            request.url,
            request.method,
            request.headers,
            request.body,
            _MAX_RESPONSE,
            config.timeout_seconds,
        )
        fetched = await self._client.fetch(limited, rules_for(request))
        if fetched.outcome is not Outcome.ALLOW:
            raise ToolError(f"The search failed: {fetched.reason} [{fetched.rule}]")
        if fetched.status != _OK:
            raise ToolError(f"The search failed: {_reason(fetched)}.")
        try:
            return provider.results(json.loads(fetched.body), query)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"The response of {provider.name} has no results: {error}.") from error


def _reason(fetched: Fetched) -> str:
    reason = _REFUSED.get(fetched.status or 0, "")
    body = clean(fetched.body[:1000].decode("utf-8", "replace"))
    return f"status {fetched.status}" + (f", {reason}" if reason else f": {body}" if body else "")


def _tool_result(result: dict[str, Any]) -> ToolResult:
    marked = result | {
        "externalContent": {"untrusted": True, "source": "web_search", "wrapped": True}
    }
    text = json.dumps(marked, ensure_ascii=False)
    return ToolResult(text, origin=Origin.WEB, details=marked)
