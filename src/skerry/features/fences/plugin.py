"""Registers the methods about files that a prompt includes as data only."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    needs = {
        "files.get": ADMINS,
        "files.list": READERS,
        "files.trust": ADMINS,
    }
    api.methods(needs, "methods:METHODS")
