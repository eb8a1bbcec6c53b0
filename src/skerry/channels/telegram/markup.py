"""Markdown as the HTML of the Bot API."""

from functools import partial
from html import escape
from typing import Final

from msgspec.structs import replace

from skerry.channels import markdown
from skerry.channels.markdown import escaped_html, html_link


def _fence(code: str, language: str) -> str:
    if not language.replace("-", "").replace("+", "").isalnum():
        return f"<pre>{escaped_html(code)}</pre>"
    name = escape(language, quote=True)
    return f'<pre><code class="language-{name}">{escaped_html(code)}</code></pre>'


HTML: Final = replace(
    markdown.HTML, fence=_fence, link=partial(html_link, schemes=markdown.WEB | {"tg"})
)
