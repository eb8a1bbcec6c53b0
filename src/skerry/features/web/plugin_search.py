"""Uses the search of a plugin as the provider of `web_search`."""

from collections.abc import Mapping
from typing import Any

from skerry.features.web.providers import Query, SearchRefusedError, listed
from skerry.model.errors import PluginError, ToolError
from skerry.sdk.search import SearchProvider, SearchQuery


def chosen(searches: Mapping[str, SearchProvider]) -> tuple[str, SearchProvider]:
    """Returns the id of the plugin and its search; of several plugins the first by id.

    Raises:
        SearchRefusedError: no loaded plugin provides a search.
    """
    if not searches:
        raise SearchRefusedError(
            "missing_search_plugin",
            "tools.web.search.provider is `plugin`, and no loaded plugin provides a search."
            " List the plugins: skerry plugins list",
        )
    plugin = min(searches)
    return plugin, searches[plugin]


async def results(search: SearchProvider, query: Query) -> dict[str, Any]:
    """Returns the fields of the result; texts are cleaned as for every provider.

    Raises:
        ToolError: the plugin failed or refused.
    """
    search_query = SearchQuery(
        query.query, query.count, query.country, query.search_lang, query.ui_lang, query.freshness
    )
    try:
        hits = await search.search(search_query)
    except PluginError as error:
        raise ToolError(" ".join(filter(None, (str(error), error.remedy)))) from error
    rows = [
        {"title": hit.title, "url": hit.url, "text": hit.description, "published": hit.published}
        for hit in hits[: query.count]
    ]
    return listed(rows, "text", "published")
