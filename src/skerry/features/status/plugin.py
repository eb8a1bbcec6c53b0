"""Registers the method that reports the activity of the gateway."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods({}, "methods:METHODS")
