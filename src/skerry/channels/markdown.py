"""Converts Markdown of models to the markup of chat platforms, which support few marks."""

from collections.abc import Callable, Container, Sequence
from functools import cache
from html import escape
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

WEB = frozenset({"http", "https", "mailto"})
"""Schemes of addresses that may be links."""
MAX_CHARS = 64_000
"""Maximum length of a parsed text; a longer one is escaped without parsing."""
_MAX_NESTING = 20


class Dialect(Struct, frozen=True):
    """Markup of one platform; each pair has an opening and a closing mark."""

    escape: Callable[[str], str]
    """Escapes a text so that the platform shows it unchanged."""
    strong: tuple[str, str]
    emphasis: tuple[str, str]
    strike: tuple[str, str]
    code: tuple[str, str]
    fence: Callable[[str, str], str]
    """Renders a code block from its text and its language, which may be empty."""
    link: Callable[[str, str], str]
    """Renders a link from its label, which is in the dialect, and its address."""
    quote: Callable[[str], str]
    """Renders a quotation of a text that is in the dialect."""
    escape_code: Callable[[str], str] | None = None
    """Escapes code; None escapes it as other text."""

    def render(self, text: str) -> str:
        """Returns the text in the dialect; headings become bold, lists get bullets.

        Markup that platforms lack is returned as its source: tables, rules, raw HTML.
        """
        if len(text) > MAX_CHARS:
            return self.escape(text)
        return _Renderer(self, text).blocks(parser().parse(text)).strip("\n")


def scheme(address: str) -> str:
    """Returns the scheme of an address; empty for a malformed address."""
    try:
        return urlsplit(address).scheme
    except ValueError:
        return ""


def quoted(text: str) -> str:
    """Returns the lines of a text, each behind `>`."""
    return "> " + text.replace("\n", "\n> ")


def without_backticks(code: str) -> str:
    """Returns code for marks that have no escape."""
    return code.replace("`", "'")


def escaped_html(text: str) -> str:
    """Returns a text as HTML."""
    return escape(text, quote=False)


def html_link(label: str, address: str, schemes: Container[str] = WEB) -> str:
    """Returns a link in HTML; an address with another scheme is returned as text."""
    if scheme(address) not in schemes:
        return f"{label} ({escaped_html(address)})" if address else label
    return f'<a href="{escape(address, quote=True)}">{label or escaped_html(address)}</a>'


@cache
def parser(*skipped: str, breaks: bool = False) -> MarkdownIt:
    """Returns the parser of what models write, without some rules of markdown-it.

    With `breaks` each line end of the text is a line break in HTML.
    """
    options = {"html": False, "linkify": False, "breaks": breaks, "maxNesting": _MAX_NESTING}
    return MarkdownIt("commonmark", options).enable(["strikethrough", "table"]).disable(skipped)


HTML = Dialect(
    escape=escaped_html,
    strong=("<b>", "</b>"),
    emphasis=("<i>", "</i>"),
    strike=("<s>", "</s>"),
    code=("<code>", "</code>"),
    fence=lambda code, _: f"<pre>{escaped_html(code)}</pre>",
    link=html_link,
    quote=lambda text: f"<blockquote>{text}</blockquote>",
)
"""The few marks of HTML that platforms support."""


class _Renderer:
    """Renders one text."""

    def __init__(self, dialect: Dialect, text: str) -> None:
        self._dialect = dialect
        self._lines = text.splitlines()
        self._lists: list[int | None] = []
        """Numbers of the next items of the open lists; None for bullets."""

    def blocks(self, tokens: Sequence[Token]) -> str:
        """Returns block tokens, with an empty line between paragraphs."""
        parts: list[str] = []
        position = 0
        while position < len(tokens):
            token = tokens[position]
            end = _end(tokens, position)
            inner = tokens[position + 1 : end]
            parts.append(self._block(token, inner))
            position = max(end, position) + 1
        separator = "\n" if self._lists else "\n\n"
        return separator.join(part for part in parts if part)

    def _block(self, token: Token, inner: Sequence[Token]) -> str:
        dialect = self._dialect
        match token.type.removesuffix("_open"):
            case "inline":
                text = self._inline(token.children or [])
            case "heading":
                text = dialect.strong[0] + self._inline_of(inner, "strong") + dialect.strong[1]
            case "blockquote":
                text = dialect.quote(self._outside_lists(inner))
            case "bullet_list" | "ordered_list":
                text = self._list(token, inner)
            case "list_item":
                text = self._item(inner)
            case "table" | "hr" | "fence" | "code_block":
                text = self._verbatim(token)
            case _:
                text = self.blocks(inner)
        return text

    def _verbatim(self, token: Token) -> str:
        """Returns code, a table as it was written, or a rule."""
        if token.type == "hr":
            return "———"
        if token.type == "table_open":
            first, last = token.map or [0, 0]
            return self._dialect.fence("\n".join(self._lines[first:last]), "")
        language = (token.info or "").split(" ")[0]
        return self._dialect.fence(token.content.removesuffix("\n"), language)

    def _list(self, token: Token, inner: Sequence[Token]) -> str:
        is_numbered = token.type == "ordered_list_open"
        self._lists.append(int(token.attrs.get("start", 1)) if is_numbered else None)
        text = self.blocks(inner)
        self._lists.pop()
        return text

    def _outside_lists(self, tokens: Sequence[Token]) -> str:
        """Returns block tokens as they are outside of a list."""
        lists, self._lists = self._lists, []
        text = self.blocks(tokens)
        self._lists = lists
        return text

    def _item(self, inner: Sequence[Token]) -> str:
        number = self._lists[-1]
        mark = "•"
        if number is not None:
            mark, self._lists[-1] = f"{number}.", number + 1
        text = self.blocks(inner)
        return f"{mark} " + text.replace("\n", "\n  ")

    def _inline_of(self, tokens: Sequence[Token], skipped_mark: str) -> str:
        children = [child for token in tokens for child in token.children or ()]
        return self._inline(
            [child for child in children if not child.type.startswith(skipped_mark)]
        )

    def _inline(self, tokens: Sequence[Token]) -> str:
        dialect = self._dialect
        escape_code = dialect.escape_code or dialect.escape
        marks = {"strong": dialect.strong, "em": dialect.emphasis, "s": dialect.strike}
        text, links = "", list[tuple[str, str]]()
        for token in tokens:
            name, _, end = token.type.rpartition("_")
            if name in marks:
                text += marks[name][0 if end == "open" else 1]
            elif token.type == "code_inline":
                text += dialect.code[0] + escape_code(token.content) + dialect.code[1]
            elif token.type == "link_open":
                links.append((text, str(token.attrs.get("href", ""))))
                text = ""
            elif token.type == "link_close":
                before, address = links.pop()
                text = before + dialect.link(text, address)
            elif token.type == "image":
                text += dialect.link(
                    dialect.escape(token.content or "image"), str(token.attrs.get("src", ""))
                )
            elif token.type in {"softbreak", "hardbreak"}:
                text += "\n"
            else:
                text += dialect.escape(token.content)
        return text


def _end(tokens: Sequence[Token], start: int) -> int:
    """Returns the position of the token that closes the token at `start`; `start` if none does."""
    if tokens[start].nesting != 1:
        return start
    depth = 0
    for position in range(start, len(tokens)):
        depth += tokens[position].nesting
        if depth == 0:
            return position
    return len(tokens)
