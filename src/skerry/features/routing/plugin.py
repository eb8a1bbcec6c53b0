"""Registers the explanation of routing."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods({"routing.explain": READERS}, "methods:METHODS")
