"""Registers the retention: its service, and what `skerry doctor` says of it."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.service("service:run")
    api.check("checks:growth")
