"""The search of a plugin, as the provider of `web_search`."""

from collections.abc import Mapping
from typing import Any

from skerry.features.web.providers import Query, SearchRefusedError, listed
from skerry.model.errors import PluginError, ToolError
from skerry.sdk.search import SearchProvider, SearchQuery


def chosen(searches: Mapping[str, SearchProvider]) -> tuple[str, SearchProvider]:
    """Returns the plugin that searches, and its search; of several the first by its id.

    Raises:
        SearchRefusedError: no plugin that is loaded provides one.
    """
    if not searches:
        raise SearchRefusedError(
            "missing_search_plugin",
            "tools.web.search.provider is `plugin`, and no plugin that is loaded provides a search."
            " `skerry plugins list` shows the plugins.",
        )
    plugin = min(searches)
    return plugin, searches[plugin]


async def found(search: SearchProvider, query: Query) -> dict[str, Any]:
    """Returns the fields of the result; texts are cleaned as those of any provider.

    Raises:
        ToolError: the plugin failed, or refused.
    """
    asked = SearchQuery(
        query.query, query.count, query.country, query.search_lang, query.ui_lang, query.freshness
    )
    try:
        hits = await search.search(asked)
    except PluginError as error:
        raise ToolError(" ".join(filter(None, (str(error), error.remedy)))) from error
    rows = [
        {"title": hit.title, "url": hit.url, "text": hit.description, "published": hit.published}
        for hit in hits[: query.count]
    ]
    return listed(rows, "text", "published")
