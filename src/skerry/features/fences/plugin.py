"""Registers the methods for files that a prompt includes only as data."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "files.get": ADMINS,
        "files.list": READERS,
        "files.trust": ADMINS,
    }
    api.methods(needs, "methods:METHODS")
