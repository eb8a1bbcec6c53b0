"""Registers the method about skills."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.methods({"skills.status": READERS}, "methods:METHODS")
