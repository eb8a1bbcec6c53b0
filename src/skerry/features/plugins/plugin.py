"""Registers the methods for plugins."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "plugins.check": READERS,
        "plugins.list": READERS,
        "plugins.panels": READERS,
    }
    api.methods(needs, "methods:METHODS")
