"""Registers the method that renders Markdown."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.methods({"markdown.render": READERS}, "methods:METHODS")
