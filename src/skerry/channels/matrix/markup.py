"""Markdown as the HTML of Matrix messages."""

from skerry.channels.markdown import MAX_CHARS, parser


def rendered(text: str) -> str:
    """Returns the text as HTML without any of its own; empty where it has no markup.

    Addresses of other kinds than links of the web and of mail are left as text by the parser.
    """
    if len(text) > MAX_CHARS:
        return ""
    html = parser("image", breaks=True).render(text).strip()
    plain = html.removeprefix("<p>").removesuffix("</p>")
    return "" if "<" not in plain and "&" not in plain else html
