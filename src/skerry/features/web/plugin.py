"""Registers the tools `web_fetch` and `web_search`."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.tools("tools:make")
    api.check("checks:search_provider")
    api.check("checks:open_network")
