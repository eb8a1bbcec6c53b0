"""Registers the methods that send agents system events."""

from skerry.policy.access import ADMINS, WRITERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods({"system-event": ADMINS, "wake": WRITERS}, "methods:METHODS")
