"""The tool `web_fetch`, against real servers."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.features.web.web_fetch import content_type
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from tests.support.net_lab import OTHER, PUBLIC, lab, redirect, reply
from tests.support.web_tools import call, result, tools

PAGE = b"""<html><head><title>A  page</title><style>.x{display:none}</style></head><body>
<h1>Head</h1><p>Some <b>bold</b> words with <a href="/next">a link</a>.</p>
<p class="x">UNSEEN</p><ul><li>first<li>second</ul></body></html>"""
HTML = "text/html; charset=utf-8"


async def test_a_page_becomes_markdown_and_is_foreign(tmp_path: Path) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(PAGE, content_type=HTML))
        fetch, _, host = tools(world, tmp_path, {"fetch": {"userAgent": "Test"}})
        given = await result(fetch, url="http://A.example/page")
    report = json.loads(given.text)
    assert given.origin is Origin.WEB
    assert report["title"] == "A page"
    assert report["text"] == (
        "# Head\n\nSome **bold** words with [a link](http://a.example/next).\n\n- first\n- second"
    )
    assert list(report)[-1] == "text"
    assert report["finalUrl"] == "http://a.example/page"
    assert (report["url"], report["status"], report["contentType"]) == (
        "http://A.example/page",
        200,
        "text/html",
    )
    assert (report["extractMode"], report["extractor"]) == ("markdown", "body")
    assert report["externalContent"]["untrusted"] is True
    assert (report["truncated"], report["length"]) == (False, len(report["text"]))
    assert given.details is not None
    assert "text" not in given.details
    assert world.asked[0].headers["user-agent"] == "Test"
    assert host.config.tools.web.fetch.max_chars == 50_000


async def test_plain_text_has_no_marks(tmp_path: Path) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(PAGE, content_type=HTML))
        fetch, _, _ = tools(world, tmp_path)
        payload = await call(fetch, url="http://a.example/", extract_mode="text")
    assert "Some bold words with a link." in payload["text"]


@pytest.mark.parametrize(
    ("body", "kind", "text", "extractor"),
    [
        (b'{"b":[1,2],"a":"\xc3\xa4"}', "application/json", '{\n  "b": [\n', "json"),
        (b'{"a":1}', "application/problem+json", '{\n  "a": 1\n}', "json"),
        (b"{no json", "application/json", "{no json", "json"),
        (b"a\r\nb\xe4", "text/plain; charset=iso-8859-1", "a\nbä", "raw"),
        (b"a\xff\xfe", "text/plain; charset=nonsense", "aÿþ", "raw"),
        (b"<a>x</a>", "application/atom+xml", "<a>x</a>", "raw"),
        (b"pl\xe2\x80\x8bain\xe2\x80\xae", "text/markdown", "plain", "raw"),
    ],
)
async def test_other_texts_are_decoded(
    tmp_path: Path, body: bytes, kind: str, text: str, extractor: str
) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(body, content_type=kind))
        fetch, _, _ = tools(world, tmp_path)
        payload = await call(fetch, url="http://a.example/")
    assert payload["text"].startswith(text)
    assert payload["extractor"] == extractor


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/pdf"])
async def test_what_is_no_text_is_refused(tmp_path: Path, kind: str) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(b"\x89PNG", content_type=kind))
        fetch, _, _ = tools(world, tmp_path)
        with pytest.raises(ToolError, match=f"is {kind}, which is not text"):
            await call(fetch, url="http://a.example/")


@pytest.mark.abuse(96)
@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://169.254.169.254/latest/meta-data/", "address-metadata"),
        ("http://inner.example/", "address-private"),
        ("http://a.example/", "address-loopback"),
        ("file:///etc/passwd", "scheme"),
    ],
)
async def test_the_model_reaches_nothing_that_is_private(
    tmp_path: Path, url: str, rule: str
) -> None:
    async with lab(a_example=PUBLIC, inner_example="10.0.0.1") as world:
        await world.serve(PUBLIC, 80, redirect("http://127.0.0.1/"))
        await world.serve("127.0.0.1", 80, reply(b"secret"))
        fetch, _, _ = tools(world, tmp_path)
        with pytest.raises(ToolError, match=rf"\[{rule}\]"):
            await call(fetch, url=url)
    assert ("127.0.0.1", 80) not in world.connections


@pytest.mark.requirement("ssrf-size-limits")
async def test_a_text_is_cut_where_the_owner_and_the_model_say(tmp_path: Path) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(b"x" * 3_000_000, content_type="text/plain"))
        fetch, _, host = tools(world, tmp_path)
        default = await call(fetch, url="http://a.example/")
        small = await call(fetch, url="http://a.example/", max_chars=100)
        over = await call(fetch, url="http://a.example/", maxChars=1_000_000)
        host.set({"fetch": {"maxCharsCap": 2_000_000, "maxResponseBytes": 1_000_000}})
        large = await call(fetch, url="http://a.example/", maxChars=2_000_000)
    assert [payload["length"] for payload in (default, small, over, large)] == [
        50_000,
        100,
        50_000,
        1_000_000,
    ]
    assert all(payload["truncated"] for payload in (default, small, over, large))
    assert "first 1000000 bytes" in large["warning"]
    assert default["rawLength"] == 2_000_000


async def test_an_error_of_the_server_is_an_error_with_its_text(tmp_path: Path) -> None:
    body = b"<h1>Not here</h1>" + b"<p>x</p>" * 5000
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(body, "404 Not Found", content_type=HTML))
        fetch, _, _ = tools(world, tmp_path)
        given = await result(fetch, url="http://a.example/")
    assert given.is_error
    assert given.origin is Origin.WEB
    assert given.text.startswith("http://a.example/ answered 404.\n\n# Not here")
    assert len(given.text) < 4100


async def test_a_page_is_kept_for_its_minutes(tmp_path: Path) -> None:
    async with lab(a_example=PUBLIC, b_example=OTHER) as world:
        await world.serve(PUBLIC, 80, reply(b"text", content_type="text/plain"))
        fetch, _, host = tools(world, tmp_path)
        first = await call(fetch, url="http://a.example/")
        host.clock.advance(15 * 60_000 - 1)
        again = await call(fetch, url="http://a.example#x")
        other = await call(fetch, url="http://a.example/", extractMode="text")
        host.clock.advance(1)
        late = await call(fetch, url="http://a.example/")
    assert [payload.get("cached", False) for payload in (first, again, other, late)] == [
        False,
        True,
        False,
        False,
    ]
    assert len(world.asked) == 3


async def test_what_the_owner_closed_is_not_answered_from_the_cache(tmp_path: Path) -> None:
    opened = {"fetch": {"ssrfPolicy": {"allowedHostnames": ["nas.lan:80"]}}}
    async with lab(nas_lan="10.0.0.7") as world:
        await world.serve("10.0.0.7", 80, reply(b"text", content_type="text/plain"))
        fetch, _, host = tools(world, tmp_path, opened)
        assert (await call(fetch, url="http://nas.lan/"))["text"] == "text"
        host.set({})
        with pytest.raises(ToolError, match="special-name"):
            await call(fetch, url="http://nas.lan/")


async def test_the_owner_switches_it_off(tmp_path: Path) -> None:
    async with lab() as world:
        fetch, search, host = tools(world, tmp_path)
        assert fetch.is_offered(None)  # type: ignore[arg-type] # it asks nothing of the caller
        host.set({"fetch": {"enabled": False}, "search": {"enabled": False}})
        assert not fetch.is_offered(None)  # type: ignore[arg-type] # as above
        assert not search.is_offered(None)  # type: ignore[arg-type] # as above


@pytest.mark.parametrize(
    ("header", "parts"),
    [
        ("", ("", "")),
        ('Text/HTML; Charset="UTF-8"; x', ("text/html", "UTF-8")),
        ("application/json;charset=latin1", ("application/json", "latin1")),
    ],
)
def test_a_content_type_has_its_charset(header: str, parts: tuple[str, str]) -> None:
    assert content_type(header) == parts


@pytest.mark.parametrize(
    "arguments", [{}, {"url": ""}, {"url": "http://a.example", "maxChars": 1}, {"uri": "x"}]
)
async def test_wrong_arguments_are_named(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async with lab() as world:
        fetch, _, _ = tools(world, tmp_path)
        with pytest.raises(ValueError, match=r"url|maxChars|uri"):
            await call(fetch, **arguments)
