"""HTML of mails as text; imported at the first mail that has no plain text, as lxml is large."""

import re
from typing import Final

import lxml.html
from lxml import etree

from skerry.net.html_text import whole_text
from skerry.net.html_visible import remove_invisible

_HISTORY: Final = re.compile(
    r"(?:^|\s)(?:gmail_quote|gmail_signature|moz-cite-prefix|yahoo_quoted)"
)


def text_of(html: str, *, keeps_history: bool) -> str:
    """Returns the visible text; without quoted mails unless `keeps_history`."""
    try:
        root = lxml.html.document_fromstring(html, parser=lxml.html.HTMLParser(huge_tree=False))
    except (etree.LxmlError, ValueError):
        return ""
    remove_invisible(root)
    if not keeps_history:
        for element in list(root.iter("blockquote", "div")):
            is_cited = element.tag == "blockquote" and element.get("type") == "cite"
            if is_cited or _HISTORY.search(element.get("class") or ""):
                element.drop_tree()
    return str(whole_text(root, "", marked=False))
