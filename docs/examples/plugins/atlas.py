"""An atlas: answers `web_search` from a fixed list, and embeds texts by their words."""

import hashlib
import re
from collections.abc import Sequence

from skerry.sdk.api import PluginApi
from skerry.sdk.search import SearchHit, SearchQuery

PLACES = (
    SearchHit("Lisbon", "https://atlas.example/lisbon", "A harbour town at the river Tejo."),
    SearchHit("Oslo", "https://atlas.example/oslo", "A harbour town at the end of a fjord."),
)


class Atlas:
    """Implements `skerry.sdk.search.SearchProvider`."""

    async def search(self, query: SearchQuery) -> Sequence[SearchHit]:
        """Returns the places that have a word of the query."""
        words = query.query.lower().split()
        found = [
            hit
            for hit in PLACES
            if any(word in f"{hit.title} {hit.description}".lower() for word in words)
        ]
        return found[: query.count]


class Words:
    """Implements `skerry.sdk.embedding.EmbeddingProvider`: texts with common words are near."""

    model = "words-256"
    local = True

    async def embed(self, texts: Sequence[str], *, is_query: bool) -> Sequence[Sequence[float]]:
        """Returns the counts of words, each at an index given by its hash, also of questions."""
        del is_query
        return [self._counted(text) for text in texts]

    def _counted(self, text: str) -> list[float]:
        row = [0.0] * 256
        for word in re.findall(r"\w+", text.lower()):
            row[hashlib.blake2b(word.encode(), digest_size=1).digest()[0]] += 1
        return row


def register(api: PluginApi) -> None:
    """Registers both providers."""
    api.register_provider("search", Atlas())
    api.register_provider("embedding", Words())
