"""Registers the methods about plugins."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    needs = {
        "plugins.check": READERS,
        "plugins.list": READERS,
        "plugins.panels": READERS,
    }
    api.methods(needs, "methods:METHODS")
