"""Checks of `skerry doctor`: the provider of `web_search`, and the network of fetches."""

from collections.abc import Iterable

from skerry.features.web.config import WebSearchConfig
from skerry.features.web.providers import Query, SearchRefusedError, provider_of
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


async def search_provider(installation: Installation) -> Iterable[Check]:
    """Returns the provider of `web_search`, or its missing setting; sends no request."""
    if installation.config is None:
        return []
    settings = installation.config.tools.web.section(WebSearchConfig)
    if not settings.enabled:
        return []
    if settings.provider == "plugin":
        return [Check("web search", Level.OK, "web_search uses the search of a plugin.")]
    provider = provider_of(settings, installation.environ)
    try:
        provider.request(Query("x", 1))
    except SearchRefusedError as error:
        message = f"web_search has no provider ({error.error}); docs/guide/web.md lists them."
        return [Check("web search", Level.OK, message)]
    return [Check("web search", Level.OK, f"web_search uses {provider.name}.")]


async def open_network(installation: Installation) -> Iterable[Check]:
    """Returns a warning when fetches can reach the whole local network."""
    if installation.config is None:
        return []
    if not installation.config.tools.web.fetch.ssrf_policy.allow_private_network:
        return []
    key = "tools.web.fetch.ssrfPolicy"
    message = f"{key}.allowPrivateNetwork lets web pages lead fetches into the local network."
    remedy = f"List the hosts in {key}.allowedHostnames, such as nas.lan:8080, and unset it."
    return [Check("network", Level.WARNING, message, remedy)]
