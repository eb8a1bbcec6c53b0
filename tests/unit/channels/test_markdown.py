"""Markdown in the markup of platforms: marks that they know, everything else as it was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.channels.telegram.markup import HTML
from skerry.testing.telegram_methods import parsed_html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain <b> & text", "plain &lt;b&gt; &amp; text"),
        ("**bold** _soft_ ~~gone~~", "<b>bold</b> <i>soft</i> <s>gone</s>"),
        ("# A *title*\n\ntext", "<b>A <i>title</i></b>\n\ntext"),
        ("`a<b`", "<code>a&lt;b</code>"),
        ("```py\nx < 1\n```", '<pre><code class="language-py">x &lt; 1</code></pre>'),
        ("```\nx\n```", "<pre>x</pre>"),
        ("- one\n- two\n  - three", "• one\n• two\n  • three"),
        ("3. one\n4. two", "3. one\n4. two"),
        ("> said\n> twice", "<blockquote>said\ntwice</blockquote>"),
        ("[a](https://x.example/?a=1&b=2)", '<a href="https://x.example/?a=1&amp;b=2">a</a>'),
        ("[a](javascript:alert)", "[a](javascript:alert)"),
        ("[a](file:///etc/passwd)", "[a](file:///etc/passwd)"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<pre>| a | b |\n|---|---|\n| 1 | 2 |</pre>"),
        ("a\nb", "a\nb"),
    ],
)
def test_markdown_becomes_what_telegram_shows(text: str, html: str) -> None:
    assert HTML.render(text) == html


def test_a_text_that_is_too_long_to_parse_is_escaped_as_it_is() -> None:
    text = "<*" * 40_000
    assert HTML.render(text) == text.replace("<", "&lt;")


@given(st.text(alphabet="ab <>&*_`~[]()#-|>\n1.!\\\"'", max_size=80))
def test_whatever_a_model_writes_is_html_that_telegram_takes(text: str) -> None:
    parsed_html(HTML.render(text))
