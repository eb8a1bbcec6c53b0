"""Extracts the text of a page, in a separate process: pages are large, parsers in C."""

import logging
from typing import Any, Final

import lxml.html
from lxml import etree

from skerry.net.html_text import whole_text
from skerry.net.html_visible import remove_invisible

_MIN_SHARE: Final = 0.3
"""Share of the visible text below which an extracted article is not used."""
_MIN_CHARS: Final = 400


def extract(job: tuple[str, str, bool]) -> tuple[str, str, str]:
    """Returns title, text, and the extraction: `article` or `body`.

    `job` is the HTML, its address, and true for Markdown.
    """
    html, url, marked = job
    for library in ("trafilatura", "htmldate", "justext"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        root = lxml.html.document_fromstring(html, parser=lxml.html.HTMLParser(huge_tree=False))
    except (etree.ParserError, ValueError):
        return "", "", "body"
    title = " ".join((root.findtext(".//title") or "").split())
    remove_invisible(root)
    whole = whole_text(root, url, marked=marked)
    article = _article(root, url, marked=marked)
    if len(article) < max(_MIN_CHARS, _MIN_SHARE * len(whole)):
        return title, whole, "body"
    return title, article, "article"


def _article(root: Any, url: str, *, marked: bool) -> str:
    """Returns the main text of the page; empty when none is recognised."""
    import trafilatura  # noqa: PLC0415 - 0.2 s of CPU, which a page without text does not need

    try:
        text = trafilatura.extract(
            lxml.html.tostring(root, encoding="unicode"),
            url=url,
            output_format="markdown" if marked else "txt",
            include_comments=False,
            include_formatting=marked,
            include_links=marked,
            favor_recall=True,
        )
    except Exception:  # noqa: BLE001 - the whole page replaces one that it cannot parse
        return ""
    return text or ""
