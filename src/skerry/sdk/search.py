"""Web search by a plugin, for the tool `web_search`."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class SearchQuery(Struct, frozen=True):
    """Parameters of one search."""

    query: str
    count: int
    """Number of requested results, 1 to 10."""
    country: str = ""
    """Country code of two letters; empty for any."""
    search_lang: str = ""
    """Language code of the results; empty for any."""
    ui_lang: str = ""
    """Language code of the user interface; empty for any."""
    freshness: str = ""
    """`pd`, `pw`, `pm`, `py`, or `YYYY-MM-DDtoYYYY-MM-DD`; empty for any time."""


class SearchHit(Struct, frozen=True):
    """One result. The gateway cleans its texts and marks them as untrusted."""

    title: str
    url: str
    description: str = ""
    published: str = ""
    """Date or age in any notation; empty for unknown."""


class SearchProvider(Protocol):
    """A web search; `PluginApi.register_search_provider` registers it."""

    async def search(self, query: SearchQuery) -> Sequence[SearchHit]:
        """Returns the results, best first. A call has 30 s.

        Raises:
            PluginError: the search failed; the model reads the message.
        """
        ...
