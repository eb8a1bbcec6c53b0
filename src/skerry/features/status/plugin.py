"""Registers the method that reports the activity of the gateway."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.methods({}, "methods:METHODS")
