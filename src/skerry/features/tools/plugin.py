"""Registers the method that lists tools with the decision on each."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods({"tools.list": READERS}, "methods:METHODS")
