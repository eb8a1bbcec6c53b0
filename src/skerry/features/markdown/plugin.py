"""Registers the method that renders Markdown."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods({"markdown.render": READERS}, "methods:METHODS")
