"""Registers the parts of the feature."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the tool, and the check of patterns."""
    api.tools("tool:make")
    api.check("checks:patterns")
