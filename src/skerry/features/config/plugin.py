"""Registers the commands on the configuration."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.commands("commands:commands")
