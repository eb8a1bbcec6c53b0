"""Registers the tool `browser` and its check."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.tools("tools:make")
    api.check("checks:chromium")
