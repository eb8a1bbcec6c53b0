"""Registers the audit log: what `skerry doctor` says of it."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.check("checks:chain")
