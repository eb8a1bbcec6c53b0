"""Web search that a plugin provides for the tool `web_search`."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class SearchQuery(Struct, frozen=True):
    """One search."""

    query: str
    count: int
    """Results that are wanted, 1 to 10."""
    country: str = ""
    """Two letters, or empty."""
    search_lang: str = ""
    ui_lang: str = ""
    freshness: str = ""
    """`pd`, `pw`, `pm`, `py`, or `YYYY-MM-DDtoYYYY-MM-DD`; empty for any time."""


class SearchHit(Struct, frozen=True):
    """One result; texts may be anything, they are cleaned and marked as foreign."""

    title: str
    url: str
    description: str = ""
    published: str = ""


class SearchProvider(Protocol):
    """Answers searches. A call has 30 s."""

    async def search(self, query: SearchQuery) -> Sequence[SearchHit]:
        """Returns the results, the best first.

        Raises:
            PluginError: it cannot answer; the message is for the model.
        """
        ...
