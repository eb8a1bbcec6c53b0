"""Registers the commands for the delivery of replies."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.commands("commands:commands")
