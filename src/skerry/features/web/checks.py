"""Check of `skerry doctor`: what `web_search` has to search with."""

from collections.abc import Iterable

from skerry.features.web.providers import Query, SearchRefusedError, provider_of
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


async def search_provider(installation: Installation) -> Iterable[Check]:
    """Returns the provider of `web_search`, or what it lacks; asks nobody."""
    if installation.config is None or not installation.config.tools.web.search.enabled:
        return []
    provider = provider_of(installation.config.tools.web.search, installation.environ)
    try:
        provider.request(Query("x", 1))
    except SearchRefusedError as error:
        message = f"web_search has no provider ({error.error}); docs/guide/web.md lists them."
        return [Check("web search", Level.OK, message)]
    return [Check("web search", Level.OK, f"web_search asks {provider.name}.")]
