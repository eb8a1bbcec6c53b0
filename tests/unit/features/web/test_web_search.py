"""The tool `web_search`, against servers that answer as its providers do."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.features.web.checks import search_provider
from skerry.features.web.config import WebSearchConfig
from skerry.features.web.providers import clean, provider_of
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.sdk.features import Installation
from tests.support.net_lab import PUBLIC, Answer, certificate, lab, redirect, reply
from tests.support.web_tools import call, result, tools

BRAVE = {
    "web": {
        "results": [
            {
                "title": "A <strong>title</strong>",
                "url": "https://a.example/x",
                "description": "Some &amp; <strong>words</strong>\u200b",
                "age": "2 days ago",
            },
            {"title": "B", "url": "javascript:x", "description": 3},
            "nonsense",
        ]
    }
}
KEY = {"search": {"apiKey": "s3cret"}}


def json_reply(value: Any, status: str = "200 OK") -> Answer:
    return reply(json.dumps(value).encode(), status, content_type="application/json")


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    names = ("api.search.brave.com", "api.perplexity.ai")
    context, file = certificate(tmp_path, *names)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    return context


NAMES: dict[str, Any] = {"api_search_brave_com": PUBLIC, "api_perplexity_ai": PUBLIC}


async def test_brave_is_asked_with_its_key_and_its_results_are_foreign(
    tmp_path: Path, tls: Any
) -> None:
    async with lab(**NAMES) as world:
        await world.serve(PUBLIC, 443, json_reply(BRAVE), tls)
        _, search, _ = tools(world, tmp_path, KEY)
        given = await result(
            search, query="boats & more", count=2, country="DE", search_lang="de", freshness="pw"
        )
    report = json.loads(given.text)
    assert given.origin is Origin.WEB
    assert (report["query"], report["provider"], report["count"]) == ("boats & more", "brave", 2)
    assert report["results"] == [
        {
            "title": "A title",
            "url": "https://a.example/x",
            "description": "Some & words",
            "published": "2 days ago",
            "siteName": "a.example",
        },
        {"title": "B", "url": "javascript:x"},
    ]
    assert report["externalContent"]["source"] == "web_search"
    (request,) = world.asked
    assert request.path == (
        "/res/v1/web/search?q=boats+%26+more&count=2&country=DE&search_lang=de&freshness=pw"
    )
    assert request.headers["x-subscription-token"] == "s3cret"
    assert "s3cret" not in given.text


async def test_results_are_kept_for_their_minutes(tmp_path: Path, tls: Any) -> None:
    async with lab(**NAMES) as world:
        await world.serve(PUBLIC, 443, json_reply(BRAVE), tls)
        _, search, host = tools(world, tmp_path, KEY)
        await call(search, query="boats")
        assert (await call(search, query="boats"))["cached"] is True
        assert "cached" not in await call(search, query="boats", count=3)
        host.clock.advance(15 * 60_000)
        assert "cached" not in await call(search, query="boats")


@pytest.mark.parametrize(
    ("provider", "error"),
    [
        (None, "missing_brave_api_key"),
        ("brave", "missing_brave_api_key"),
        ("perplexity", "missing_perplexity_api_key"),
        ("searxng", "missing_searxng_base_url"),
    ],
)
async def test_a_missing_key_is_an_answer_that_names_it(
    tmp_path: Path, provider: str | None, error: str
) -> None:
    async with lab() as world:
        _, search, host = tools(world, tmp_path, {"search": {"provider": provider}})
        payload = await call(search, query="boats")
    assert payload.keys() == {"error", "message", "docs"}
    assert payload["error"] == error
    assert "skerry config set" in payload["message"]
    (check,) = await search_provider(Installation(tmp_path, {}, host.config))
    assert error in check.message


async def test_a_searxng_of_the_local_network_is_asked_and_nothing_else_there(
    tmp_path: Path,
) -> None:
    answer = {"results": [{"title": "T", "url": "http://b.example/", "content": "C"}] * 9}
    web = {"search": {"searxng": {"baseUrl": "http://search.lan:8888/sx/"}}}
    async with lab(search_lan="10.0.0.5") as world:
        await world.serve("10.0.0.5", 8888, json_reply(answer))
        _, search, _ = tools(world, tmp_path, web)
        payload = await call(search, query="boats", freshness="pm", search_lang="de", country="AT")
    assert (payload["provider"], payload["count"]) == ("searxng", 5)
    assert world.asked[0].path == ("/sx/search?q=boats&format=json&language=de-AT&time_range=month")
    async with lab(search_lan="10.0.0.5", other_lan="10.0.0.6") as world:
        await world.serve("10.0.0.5", 8888, redirect("http://other.lan:8888/"))
        await world.serve("10.0.0.6", 8888, json_reply(answer))
        _, search, _ = tools(world, tmp_path, web)
        with pytest.raises(ToolError, match="host-allowlist"):
            await call(search, query="boats")
    assert world.connections == [("10.0.0.5", 8888)]


async def test_perplexity_answers_with_its_sources(tmp_path: Path, tls: Any) -> None:
    answer = {
        "choices": [{"message": {"content": "Boats\u200b float."}}],
        "citations": ["https://a.example/", 3],
    }
    web = {"search": {"provider": "perplexity"}}
    async with lab(**NAMES) as world:
        await world.serve(PUBLIC, 443, json_reply(answer), tls)
        _, search, _ = tools(world, tmp_path, web, {"PERPLEXITY_API_KEY": "pk"})
        payload = await call(search, query="boats", freshness="pd")
    assert (payload["content"], payload["citations"]) == ("Boats float.", ["https://a.example/"])
    (request,) = world.asked
    assert (request.method, request.path) == ("POST", "/chat/completions")
    assert request.headers["authorization"] == "Bearer pk"
    assert json.loads(request.body) == {
        "model": "sonar-pro",
        "messages": [{"role": "user", "content": "boats"}],
        "search_recency_filter": "day",
    }


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (json_reply({}, "401 Unauthorized"), "status 401, the key is refused"),
        (json_reply({}, "429 Too Many"), "status 429, too many searches"),
        (reply(b"<b>bad</b>", "500 Oops"), "status 500: bad"),
        (reply(b"no json"), "no results"),
        (json_reply([]), "no results"),
        (json_reply({"web": {"results": 3}}), "no results"),
    ],
)
async def test_a_provider_that_fails_is_an_error_with_the_reason(
    tmp_path: Path, tls: Any, answer: Answer, reason: str
) -> None:
    async with lab(**NAMES) as world:
        await world.serve(PUBLIC, 443, answer, tls)
        _, search, _ = tools(world, tmp_path, KEY)
        with pytest.raises(ToolError, match=reason):
            await call(search, query="boats")


@pytest.mark.parametrize("freshness", ["yesterday", "2026-02-01to2026-01-01"])
async def test_an_unknown_freshness_is_an_answer(tmp_path: Path, freshness: str) -> None:
    async with lab() as world:
        _, search, _ = tools(world, tmp_path, KEY)
        payload = await call(search, query="boats", freshness=freshness)
    assert payload["error"] == "invalid_freshness"


@pytest.mark.parametrize("count", [0, 11])
async def test_a_count_is_from_one_to_ten(tmp_path: Path, count: int) -> None:
    async with lab() as world:
        _, search, _ = tools(world, tmp_path, KEY)
        with pytest.raises(ValueError, match="count"):
            await call(search, query="boats", count=count)


def test_without_a_choice_the_first_provider_that_can_answer_is_asked() -> None:
    config = WebSearchConfig()
    assert provider_of(config, {"SEARXNG_BASE_URL": "http://s.lan"}).name == "searxng"
    assert provider_of(config, {"PERPLEXITY_API_KEY": "k"}).name == "perplexity"
    both = {"BRAVE_API_KEY": "k", "PERPLEXITY_API_KEY": "k"}
    assert provider_of(config, both).name == "brave"


def test_a_text_of_a_result_is_one_line_without_tags() -> None:
    assert clean("a\n<b>b</b> &lt;c&gt; \u202e") == "a b <c>"
    assert clean(None) == ""
    assert len(clean("x" * 10_000)) == 2000
