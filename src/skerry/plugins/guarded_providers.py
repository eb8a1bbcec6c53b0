"""Guards around searches and embedding models of plugins."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from skerry.hooks.runner import HandlerError, Runner
from skerry.model.errors import PluginError
from skerry.plugins.guarded import GuardedCall
from skerry.sdk.embedding import EmbeddingProvider
from skerry.sdk.registrations import Registered
from skerry.sdk.search import SearchHit, SearchProvider, SearchQuery

SEARCH_SECONDS: Final = 30.0
EMBED_SECONDS: Final = 60.0
MAX_HITS: Final = 50
MAX_NUMBERS: Final = 8192
"""Limit of the length of a vector."""
_LOG: Final = "`skerry plugins list` shows the reason."


class GuardedSearch:
    """A search of a plugin. Implements `sdk.search.SearchProvider`."""

    def __init__(self, runner: Runner, plugin: str, provider: SearchProvider) -> None:
        self.guard = GuardedCall(runner, plugin, "search", provider.search, SEARCH_SECONDS)

    async def search(self, query: SearchQuery) -> Sequence[SearchHit]:
        """Returns the results.

        Raises:
            PluginError: the plugin failed or refused.
        """
        try:
            hits: Sequence[SearchHit] = await self.guard.call(query, _hits)
        except HandlerError as error:
            raise PluginError(f"The search of the plugin failed: {error}.", _LOG) from error
        return hits


class GuardedEmbedding:
    """An embedding model of a plugin. Implements `sdk.embedding.EmbeddingProvider`."""

    def __init__(self, runner: Runner, plugin: str, provider: EmbeddingProvider) -> None:
        self.model = str(provider.model)
        self.local = bool(provider.local)

        async def embed(arguments: tuple[Sequence[str], bool]) -> object:
            return await provider.embed(arguments[0], is_query=arguments[1])

        self.guard = GuardedCall(runner, plugin, "embedding", embed, EMBED_SECONDS)

    async def embed(self, texts: Sequence[str], *, is_query: bool) -> Sequence[Sequence[float]]:
        """Returns a vector for each text.

        Raises:
            PluginError: the plugin failed or refused.
        """

        def read(value: object) -> list[list[float]]:
            return _vectors(value, len(texts))

        try:
            rows: list[list[float]] = await self.guard.call((texts, is_query), read)
        except HandlerError as error:
            raise PluginError(f"The embedding of the plugin failed: {error}.", _LOG) from error
        return rows


def guard_providers(runner: Runner, plugin: str, registered: Registered) -> list[GuardedCall]:
    """Replaces the providers of a plugin by guarded ones; returns the guards.

    Raises:
        PluginError: a registered object is not a provider.
    """
    guards: list[GuardedCall] = []
    try:
        if registered.search is not None:
            search = registered.search = GuardedSearch(runner, plugin, registered.search)
            guards.append(search.guard)
        if registered.embedding is not None:
            embedding = GuardedEmbedding(runner, plugin, registered.embedding)
            registered.embedding = embedding
            guards.append(embedding.guard)
    except AttributeError as error:
        raise PluginError(f"A registered object is not a provider: {error}.") from error
    return guards


def _hits(value: object) -> list[SearchHit]:
    hits = list(value)[:MAX_HITS] if isinstance(value, Iterable) else [value]
    valid_hits = [hit for hit in hits if isinstance(hit, SearchHit)]
    if len(valid_hits) < len(hits):
        raise HandlerError("it returned something that is not a SearchHit")
    return valid_hits


def _vectors(value: Any, texts: int) -> list[list[float]]:
    rows = [[float(number) for number in row] for row in value]
    if len(rows) != texts or any(not 0 < len(row) <= MAX_NUMBERS for row in rows):
        raise HandlerError(f"it returned no vector for each of {texts} texts")
    return rows
