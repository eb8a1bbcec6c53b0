"""Registers the method on the log of the gateway."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.methods({"logs.tail": READERS}, "methods:METHODS")
