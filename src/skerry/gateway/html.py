"""Renders Markdown as HTML that is safe to insert into a page.

Two independent guards: the parser passes no raw HTML, and its output is sanitised with a list of
elements. The result loads and runs nothing. The module imports nothing of the gateway, so that a
child process can render.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

MAX_CHARS: Final = 64_000
"""Limit of a text that is rendered, in characters; a longer one is shown unchanged."""
_MAX_NESTING: Final = 20

_BLOCKS: Final = {"blockquote", "hr", "li", "ol", "p", "pre", "ul"}
_HEADINGS: Final = {"h1", "h2", "h3", "h4", "h5", "h6"}
_TABLE: Final = {"table", "tbody", "td", "th", "thead", "tr"}
_INLINE: Final = {"a", "br", "code", "em", "s", "strong"}
_ATTRIBUTES: Final = {
    "a": {"href", "title"},
    "ol": {"start"},
    "pre": {"data-language"},
    "td": {"data-align"},
    "th": {"data-align"},
}
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_LINK: Final = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_URL: Final = re.compile(r"https?://[^\s<>\"'`\\^{}|\[\]]+", re.IGNORECASE)
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+#.-]{1,32}")
_OVERRIDES: Final = dict.fromkeys((0x202A, 0x202B, 0x202D, 0x202E), "\N{REPLACEMENT CHARACTER}")
"""Characters that change the display order of text, which can deceive."""
_CODE_CONTROLS: Final = {
    code: f"\N{LEFT CEILING}U+{code:04X}\N{RIGHT CEILING}" for code in range(0x2066, 0x206A)
}
"""Replacements in code, where the isolating controls can deceive too; they are shown by name."""


def render(texts: Sequence[str]) -> list[str]:
    """Returns each text as sanitised HTML; a text beyond `MAX_CHARS` as plain text in `pre`.

    Elements are those of CommonMark, tables and strike-through. Links are http, https or mailto,
    also addresses in plain text; they open in a new tab and send no referrer. An image becomes a
    link. A fence is `pre` with its language in `data-language`. Cost: about a millisecond per 2,000
    characters.
    """
    parser = _parser()
    cleaner = nh3.Cleaner(
        tags=_BLOCKS | _HEADINGS | _TABLE | _INLINE,
        clean_content_tags=set(),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    return [cleaner.clean(_html(parser, text.translate(_OVERRIDES))) for text in texts]


def _html(parser: MarkdownIt, text: str) -> str:
    if len(text) > MAX_CHARS:
        return f"<pre>{escapeHtml(text)}</pre>"
    html: str = parser.render(text)
    return html


def _parser() -> MarkdownIt:
    """Returns a parser whose HTML has no style attributes and no images."""
    options = {"html": False, "breaks": True, "linkify": False, "maxNesting": _MAX_NESTING}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.core.ruler.push("addresses", _link_addresses)
    parser.validateLink = _is_link  # type: ignore[method-assign]  # as its manual says
    rules: dict[str, Any] = parser.renderer.rules  # type: ignore[attr-defined]  # of RendererHTML
    rules |= {
        "fence": _fence,
        "code_block": _fence,
        "code_inline": _code,
        "image": _image,
        "th_open": _cell,
        "td_open": _cell,
    }
    return parser


def _is_link(url: str) -> bool:
    """Returns True for a valid target; a relative one would be an address of the gateway."""
    return _LINK.match(url) is not None


def _link_addresses(state: StateCore) -> None:
    """Converts addresses in plain text to links."""
    for block in state.tokens:
        children, within = [], 0
        for token in block.children or ():
            within += token.type == "link_open"
            within -= token.type == "link_close"
            isolated = token.type == "text" and not within and "://" in token.content
            children += _linked(state, token) if isolated else [token]
        if block.children:
            block.children = children


def _linked(state: StateCore, token: Token) -> list[Token]:
    """Returns the text with its addresses as links, without punctuation at their ends."""
    tokens_out: list[Token] = []
    end = 0
    for match in _URL.finditer(token.content):
        url = match[0].rstrip(".,;:!?*_~")
        if url.endswith(")") and url.count(")") > url.count("("):
            url = url[:-1]
        opened = token.copy(type="link_open", tag="a", nesting=1, content="")
        opened.attrs = {"href": state.md.normalizeLink(url)}
        closed = token.copy(type="link_close", tag="a", nesting=-1, content="")
        before = token.copy(content=token.content[end : match.start()])
        tokens_out += [before, opened, token.copy(content=url), closed]
        end = match.start() + len(url)
    return [*tokens_out, token.copy(content=token.content[end:])]


def _fence(tokens: Sequence[Token], index: int, *_: Any) -> str:
    token = tokens[index]
    name = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
    language = f' data-language="{name}"' if _LANGUAGE.fullmatch(name) else ""
    return (
        f"<pre{language}><code>{escapeHtml(token.content.translate(_CODE_CONTROLS))}</code></pre>\n"
    )


def _code(tokens: Sequence[Token], index: int, *_: Any) -> str:
    return f"<code>{escapeHtml(tokens[index].content.translate(_CODE_CONTROLS))}</code>"


def _image(tokens: Sequence[Token], index: int, *_: Any) -> str:
    """Returns a link: a page must not load an address that a model or its input contains."""
    token = tokens[index]
    source = str(token.attrs.get("src", ""))
    return f'<a href="{escapeHtml(source)}">{escapeHtml(token.content or source)}</a>'


def _cell(tokens: Sequence[Token], index: int, *_: Any) -> str:
    token = tokens[index]
    align = str(token.attrs.get("style", "")).removeprefix("text-align:")
    return f'<{token.tag} data-align="{align}">' if align else f"<{token.tag}>"


def plain(text: str) -> str:
    """Returns a text unchanged, in `pre`."""
    return f"<pre>{escapeHtml(text.translate(_OVERRIDES))}</pre>"
