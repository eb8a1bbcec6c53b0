"""Registers the retention: its service, and its check of `skerry doctor`."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.service("service:run")
    api.check("checks:growth")
