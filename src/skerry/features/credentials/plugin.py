"""Registers the credentials: their check of `skerry doctor`."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.check("checks:profiles")
