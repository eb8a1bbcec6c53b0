"""Markdown to HTML: ordinary text, and the removal of hostile markup."""

import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from skerry.features.markdown.methods import MAX_TEXTS, MAX_TOTAL
from skerry.gateway.html import MAX_CHARS, render
from tests.support.gateway import running_gateway
from tests.support.hostile import HOSTILE, SLOW
from tests.support.wire import connected

ELEMENTS = {
    *("blockquote", "hr", "li", "ol", "p", "pre", "ul", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("table", "tbody", "td", "th", "thead", "tr", "a", "br", "code", "em", "s", "strong"),
}
ATTRIBUTES = frozenset({"href", "title", "rel", "target", "start", "data-language", "data-align"})


class Inspector(HTMLParser):
    """Notes every element and attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name: value or "" for name, value in attrs}


def test_ordinary_markdown_becomes_html() -> None:
    (html,) = render(["# Sea\n\n*calm* **deep** ~~gone~~\n\n1. one\n2. two\n\n> said\n\na\nb"])
    assert "<h1>Sea</h1>" in html
    assert "<em>calm</em> <strong>deep</strong> <s>gone</s>" in html
    assert "<ol>\n<li>one</li>" in html
    assert "<blockquote>\n<p>said</p>" in html
    assert "a<br>\nb" in html


def test_a_fence_names_its_language_and_is_not_parsed() -> None:
    (html,) = render(["```python title=x\nif a < b:\n    *c*\n```"])
    assert html == '<pre data-language="python"><code>if a &lt; b:\n    *c*\n</code></pre>\n'


def test_a_table_declares_the_alignment_of_columns_without_a_style() -> None:
    (html,) = render(["|a|b|\n|-|-:|\n|1|2|"])
    assert '<td data-align="right">2</td>' in html
    assert "style" not in html


@pytest.mark.parametrize(
    ("text", "address", "after"),
    [
        ("see https://example.org/a_b?c=d&e#f.", "https://example.org/a_b?c=d&amp;e#f", "."),
        ("(https://example.org/x)", "https://example.org/x", ")"),
        ("**http://example.org/x_(y)** z", "http://example.org/x_(y)", "</strong> z"),
    ],
)
def test_an_address_in_the_text_is_a_link(text: str, address: str, after: str) -> None:
    (html,) = render([text])
    assert f'href="{address}"' in html
    assert f">{address}</a>{after}" in html


@pytest.mark.parametrize(
    "text", ["`https://example.org`", "```\nhttps://example.org\n```", "javascript://x", "https://"]
)
def test_code_and_other_schemes_are_no_links(text: str) -> None:
    (html,) = render([text])
    assert "<a" not in html


def test_the_text_of_a_link_is_not_linked_again() -> None:
    (html,) = render(["[https://one.example](https://two.example)"])
    assert html.count("<a") == 1


def test_links_open_apart_and_tell_nothing() -> None:
    (html,) = render(["[sea](https://example.org)"])
    assert 'href="https://example.org"' in html
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'target="_blank"' in html


def test_an_image_is_a_link() -> None:
    (html,) = render(["![a map](https://example.org/map.png)"])
    assert "<img" not in html
    assert ">a map</a>" in html


def test_characters_that_reverse_text_are_shown() -> None:
    text = "abc\N{RIGHT-TO-LEFT OVERRIDE}def `a\N{RIGHT-TO-LEFT ISOLATE}b`"
    assert render([text]) == ["<p>abc\ufffddef <code>a⌈U+2067⌉b</code></p>\n"]


def test_a_text_that_is_too_long_to_parse_is_shown_as_it_is() -> None:
    (html,) = render(["*a* <b>" * MAX_CHARS])
    assert html.startswith("<pre>*a* &lt;b&gt;")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_becomes_nothing_but_harmless_elements(text: str) -> None:
    (html,) = render([text])
    inspector = Inspector()
    inspector.feed(html)
    assert inspector.elements <= ELEMENTS
    assert inspector.attributes.keys() <= ATTRIBUTES
    assert re.match(r"(https?:|mailto:|$)", inspector.attributes.get("href", ""))


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW)
def test_text_that_is_made_to_be_slow_is_not(text: str) -> None:
    begin = time.process_time()
    render([text[:MAX_CHARS]])
    assert time.process_time() - begin < 10  # CPU, not the clock; 2 where it was measured


async def test_a_client_that_may_read_gets_html_in_order(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig, connected(rig.url) as client:
        reply = await client.call("markdown.render", {"texts": ["*a*", "", "b"]})
        assert reply == {"html": ["<p><em>a</em></p>\n", "", "<p>b</p>\n"]}


@pytest.mark.parametrize("texts", [["a"] * (MAX_TEXTS + 1), ["a" * (MAX_TOTAL + 1)]])
async def test_too_much_at_once_is_refused(tmp_path: Path, texts: list[str]) -> None:
    async with running_gateway(tmp_path) as rig, connected(rig.url) as client:
        reply = await client.ask("markdown.render", {"texts": texts})
        assert reply["error"]["code"] == "INVALID_REQUEST"
