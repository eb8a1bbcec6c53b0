"""Providers of search results: builds their requests and reads their responses."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from msgspec import Struct

from skerry.features.web.config import WebSearchConfig
from skerry.features.web.text import visible
from skerry.net.safe_fetch import FetchRequest
from skerry.policy.network import NetworkRules
from skerry.policy.urls import Target, parse_url

DOCS: Final = "docs/guide/web.md"
BRAVE: Final = "https://api.search.brave.com/res/v1/web/search"
_TAG: Final = re.compile(r"<[^<>]{0,200}>")
_TEXT: Final = 2000
"""Maximum length of a title or description, in characters."""
_DATES: Final = re.compile(r"\d{4}-\d\d-\d\dto\d{4}-\d\d-\d\d")
_SPANS: Final = {"pd": "day", "pw": "week", "pm": "month", "py": "year"}


class Query(Struct, frozen=True):
    """One search."""

    query: str
    count: int
    country: str = ""
    search_lang: str = ""
    ui_lang: str = ""
    freshness: str = ""


class SearchRefusedError(Exception):
    """The search is not possible; the fields are those of the result."""

    def __init__(self, error: str, message: str) -> None:
        self.error = error
        super().__init__(message)

    @property
    def answer(self) -> dict[str, str]:
        """Returns the result for the model."""
        return {"error": self.error, "message": str(self), "docs": DOCS}


class Provider(Protocol):
    """Provider of results."""

    name: str

    def request(self, query: Query) -> FetchRequest:
        """Returns the request.

        Raises:
            SearchRefusedError: a key is missing, or the provider has no such option.
        """
        ...

    def results(self, answer: Any, query: Query) -> dict[str, Any]:
        """Returns the fields of the result from the provider's response.

        Raises:
            ValueError: the response has another form.
        """
        ...


class Brave:
    """Brave Search."""

    name = "brave"

    def __init__(self, key: str) -> None:
        self._key = key

    def request(self, query: Query) -> FetchRequest:
        """Returns the request."""
        if not self._key:
            raise SearchRefusedError(
                "missing_brave_api_key",
                "web_search needs a Brave Search API key. The owner sets it with `skerry config set"
                " tools.web.search.apiKey` or BRAVE_API_KEY in the gateway's environment.",
            )
        if query.freshness and query.freshness not in _SPANS and not _is_span(query.freshness):
            raise _wrong_freshness("pd, pw, pm, py or YYYY-MM-DDtoYYYY-MM-DD")
        fields = {
            "q": query.query,
            "count": str(query.count),
            "country": query.country,
            "search_lang": query.search_lang,
            "ui_lang": query.ui_lang,
            "freshness": query.freshness,
        }
        return FetchRequest(
            f"{BRAVE}?{urlencode({name: value for name, value in fields.items() if value})}",
            headers={"accept": "application/json", "x-subscription-token": self._key},
        )

    def results(self, answer: Any, query: Query) -> dict[str, Any]:
        """Returns the results."""
        rows = _rows(_object(_object(answer).get("web") or {}).get("results"))
        return listed(rows[: query.count], "description", "age")


class Searxng:
    """A SearXNG of the owner."""

    name = "searxng"

    def __init__(self, base_url: str) -> None:
        self._base = base_url.rstrip("/")

    def request(self, query: Query) -> FetchRequest:
        """Returns the request."""
        if not self._base:
            raise SearchRefusedError(
                "missing_searxng_base_url",
                "web_search needs the address of a SearXNG. The owner sets it with `skerry config"
                " set tools.web.search.searxng.baseUrl` or SEARXNG_BASE_URL in the gateway's"
                " environment.",
            )
        if query.freshness and query.freshness not in _SPANS:
            raise _wrong_freshness("pd, pw, pm or py with SearXNG")
        language = query.search_lang
        if language and query.country:
            language = f"{language}-{query.country}"
        fields = {
            "q": query.query,
            "format": "json",
            "language": language,
            "time_range": _SPANS.get(query.freshness, ""),
        }
        parameters = urlencode({name: value for name, value in fields.items() if value})
        return FetchRequest(
            f"{self._base}/search?{parameters}", headers={"accept": "application/json"}
        )

    def results(self, answer: Any, query: Query) -> dict[str, Any]:
        """Returns the results."""
        rows = _rows(_object(answer).get("results"))
        return listed(rows[: query.count], "content", "publishedDate")


class Perplexity:
    """Perplexity: a model that searches and answers with its sources."""

    name = "perplexity"

    def __init__(self, key: str, base_url: str, model: str) -> None:
        self._key = key
        self._base = base_url.rstrip("/")
        self._model = model

    def request(self, query: Query) -> FetchRequest:
        """Returns the request."""
        if not self._key:
            raise SearchRefusedError(
                "missing_perplexity_api_key",
                "web_search needs a Perplexity API key. The owner sets it with `skerry config set"
                " tools.web.search.perplexity.apiKey` or PERPLEXITY_API_KEY in the gateway's"
                " environment.",
            )
        if query.freshness and query.freshness not in _SPANS:
            raise _wrong_freshness("pd, pw, pm or py with Perplexity")
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": query.query}],
        }
        if query.freshness:
            body["search_recency_filter"] = _SPANS[query.freshness]
        return FetchRequest(
            f"{self._base}/chat/completions",
            "POST",
            {
                "accept": "application/json",
                "authorization": f"Bearer {self._key}",
                "content-type": "application/json",
            },
            json.dumps(body).encode(),
        )

    def results(self, answer: Any, query: Query) -> dict[str, Any]:
        """Returns the answer with its citations."""
        (choice, *_) = _rows(_object(answer).get("choices")) or [{}]
        content = _object(choice.get("message") or {}).get("content")
        if not isinstance(content, str) or not content:
            raise ValueError(f"no answer to {query.query!r}")
        citations = _object(answer).get("citations")
        listed = citations if isinstance(citations, list) else []
        urls = [clean(url) for url in listed if isinstance(url, str)]
        return {"model": self._model, "content": visible(content), "citations": urls[:50]}


def listed(rows: Sequence[Mapping[str, Any]], description: str, published: str) -> dict[str, Any]:
    """Returns the fields of a result; `description` and `published` are keys of the rows."""
    return _listed([_row(row, description, published) for row in rows])


def clean(value: object) -> str:
    """Returns a text without tags and invisible characters, on one line."""
    if not isinstance(value, str):
        return ""
    text = html.unescape(_TAG.sub("", value[: 4 * _TEXT]))
    return " ".join(visible(text).split())[:_TEXT]


def provider_of(config: WebSearchConfig, environ: Mapping[str, str]) -> Provider:
    """Returns the configured provider, else the first with a key or address, else Brave."""
    brave = Brave(_secret(config.api_key) or environ.get("BRAVE_API_KEY", "").strip())
    base = config.searxng.base_url
    address = str(base) if base else environ.get("SEARXNG_BASE_URL", "").strip()
    key = _secret(config.perplexity.api_key) or environ.get("PERPLEXITY_API_KEY", "").strip()
    perplexity = Perplexity(key, str(config.perplexity.base_url), config.perplexity.model)
    providers: dict[str, tuple[Provider, bool]] = {
        "brave": (brave, bool(brave._key)),  # noqa: SLF001 - a class of this module
        "searxng": (Searxng(address), bool(address)),
        "perplexity": (perplexity, bool(key)),
    }
    if config.provider in providers:
        return providers[config.provider][0]
    return next((provider for provider, is_set in providers.values() if is_set), brave)


def rules_for(request: FetchRequest) -> NetworkRules:
    """Returns rules that allow only the provider's host, also in the local network."""
    target = parse_url(request.url)
    if not isinstance(target, Target):
        return NetworkRules(only_hosts=("none.invalid",))
    return NetworkRules(
        allowed_hosts=frozenset({(target.host, target.port)}), only_hosts=(target.host,)
    )


def _secret(value: Any) -> str:
    return value.get_secret_value().strip() if value is not None else ""


def _is_span(text: str) -> bool:
    first, _, last = text.partition("to")
    return _DATES.fullmatch(text) is not None and first <= last


def _wrong_freshness(forms: str) -> SearchRefusedError:
    return SearchRefusedError("invalid_freshness", f"freshness must be {forms}.")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("the response is not an object")  # noqa: TRY004 - the form of a text
    return value


def _rows(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("the results are not a list")  # noqa: TRY004 - the form of a text
    return [row for row in value if isinstance(row, dict)]


def _row(row: Mapping[str, Any], description: str, published: str) -> dict[str, str]:
    url = clean(row.get("url"))
    target = parse_url(url)
    fields = {
        "title": clean(row.get("title")),
        "url": url,
        "description": clean(row.get(description)),
        "published": clean(row.get(published)),
        "siteName": target.host if isinstance(target, Target) else "",
    }
    return {name: value for name, value in fields.items() if value}


def _listed(results: list[dict[str, str]]) -> dict[str, Any]:
    return {"count": len(results), "results": results}
