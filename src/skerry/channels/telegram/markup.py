"""Markdown as the HTML of the Bot API."""

from html import escape
from typing import Final
from urllib.parse import urlsplit

from skerry.channels.markdown import Dialect

_SCHEMES: Final = frozenset({"http", "https", "mailto", "tg"})


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _fence(code: str, language: str) -> str:
    if not language.replace("-", "").replace("+", "").isalnum():
        return f"<pre>{_escaped(code)}</pre>"
    name = escape(language, quote=True)
    return f'<pre><code class="language-{name}">{_escaped(code)}</code></pre>'


def _link(label: str, address: str) -> str:
    try:
        scheme = urlsplit(address).scheme
    except ValueError:
        scheme = ""
    if scheme not in _SCHEMES:
        return f"{label} ({_escaped(address)})" if address else label
    return f'<a href="{escape(address, quote=True)}">{label or _escaped(address)}</a>'


HTML: Final = Dialect(
    escape=_escaped,
    strong=("<b>", "</b>"),
    emphasis=("<i>", "</i>"),
    strike=("<s>", "</s>"),
    code=("<code>", "</code>"),
    fence=_fence,
    link=_link,
    quote=lambda text: f"<blockquote>{text}</blockquote>",
)
