"""Registers what the feature consists of."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the check of patterns."""
    api.check("checks:patterns")
