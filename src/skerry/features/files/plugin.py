"""Registers the file tools and the methods that undo their changes."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.tools("tools:make")
    api.methods({"files.changes": READERS, "files.undo": ADMINS}, "methods:METHODS")
