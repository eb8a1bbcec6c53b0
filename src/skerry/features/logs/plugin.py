"""Registers the method for the log of the gateway."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods({"logs.tail": READERS}, "methods:METHODS")
